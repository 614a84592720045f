#include "aclnn/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace poolgrad::aclnn {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// devlib/ and stub/ hold libraries of the same names that exist for linking only: every call into them fails.
bool IsUsable(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  return std::none_of(real.begin(), real.end(),
                      [](const fs::path& part) { return part == "devlib" || part == "stub"; });
}

void AppendUsable(std::vector<fs::path>& paths, const fs::path& path) {
  if (IsUsable(path) && std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

// The vendors of custom operators in the order that vendors/config.ini gives: "load_priority=a,b".
std::vector<std::string> VendorsByPriority(const fs::path& vendors) {
  const std::string key = "load_priority=";
  std::ifstream config(vendors / "config.ini");
  for (std::string line; std::getline(config, line);) {
    if (line.rfind(key, 0) == 0) return Split(line.substr(key.size()), ',');
  }
  return {};
}

void AppendCustomOperatorLibraries(std::vector<fs::path>& paths) {
  const fs::path library = fs::path("op_api") / "lib" / "libcust_opapi.so";
  for (const std::string& root : Split(Environment("ASCEND_CUSTOM_OPP_PATH"), ':')) {
    AppendUsable(paths, root / library);
  }
  const std::string opp = Environment("ASCEND_OPP_PATH");
  if (opp.empty()) return;
  const fs::path vendors = fs::path(opp) / "vendors";
  for (const std::string& vendor : VendorsByPriority(vendors)) {
    AppendUsable(paths, vendors / vendor / library);
  }
}

// The toolkit's own operator libraries: the split ones since CANN 8.5, or the one of older releases.
void AppendToolkitOperatorLibraries(std::vector<fs::path>& paths, const fs::path& folder) {
  AppendUsable(paths, folder / "libopapi_nn.so");
  std::vector<fs::path> split;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("libopapi_", 0) == 0 && entry.path().extension() == ".so") split.push_back(entry.path());
  }
  std::sort(split.begin(), split.end());
  for (const fs::path& path : split) AppendUsable(paths, path);
  AppendUsable(paths, folder / "libopapi.so");
}

fs::path FirstUsable(const fs::path& folder, const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    if (IsUsable(folder / name)) return folder / name;
    tried += (tried.empty() ? "" : " or ") + name;
  }
  throw std::runtime_error(tried + " is missing in " + folder.string() +
                           " (ASCEND_HOME_PATH); install the CANN toolkit, release 8.5 or newer");
}

}  // namespace

LibraryPaths HostLibraryPaths() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&HostLibraryPaths), &self) == 0 || self.dli_fname == nullptr) {
    throw std::runtime_error("the loader does not tell where the execution provider's library lies");
  }
  const fs::path path = fs::absolute(self.dli_fname).parent_path() / "libaclnn_host.so";
  return {path, path, {path}};
}

LibraryPaths CannLibraryPaths() {
  const std::string home = Environment("ASCEND_HOME_PATH");
  if (home.empty()) {
    throw std::runtime_error(
        "CANN was not found: ASCEND_HOME_PATH is not set; source the set_env.sh of the CANN toolkit");
  }
  const fs::path folder = fs::path(home) / "lib64";
  if (!fs::is_directory(folder)) {
    throw std::runtime_error("CANN was not found: ASCEND_HOME_PATH names " + home + ", but there is no folder " +
                             folder.string());
  }
  LibraryPaths paths;
  paths.runtime = FirstUsable(folder, {"libacl_rt.so", "libascendcl.so"});
  paths.base = FirstUsable(folder, {"libnnopbase.so"});
  AppendCustomOperatorLibraries(paths.operators);
  AppendToolkitOperatorLibraries(paths.operators, folder);
  return paths;
}

void* OpenLibrary(const std::filesystem::path& path) {
  if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  throw std::runtime_error("cannot open " + path.string() + ": " + (reason == nullptr ? "no reason given" : reason));
}

void* FindSymbol(void* library, const char* name) { return dlsym(library, name); }

}  // namespace poolgrad::aclnn
