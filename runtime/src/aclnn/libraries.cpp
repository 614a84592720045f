// SPDX-License-Identifier: Apache-2.0

#include "aclnn/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace poolgrad::aclnn {
namespace {

namespace fs = std::filesystem;

constexpr char kOpp[] = "ASCEND_OPP_PATH";
constexpr char kCustomOpp[] = "ASCEND_CUSTOM_OPP_PATH";

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

// devlib/ and stub/ hold libraries of the same names for linking only: every call into them fails.
bool IsStub(const fs::path& real) {
  return std::any_of(real.begin(), real.end(), [](const fs::path& part) { return part == "devlib" || part == "stub"; });
}

std::string WithoutSpaces(std::string text) {
  const auto is_space = [](unsigned char letter) { return std::isspace(letter) != 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

// The vendors of custom operators in the order of vendors/config.ini: "load_priority=a,b". CANN does not load a vendor
// that is not listed.
std::vector<std::string> VendorsByPriority(const fs::path& vendors) {
  const std::string key = "load_priority=";
  std::ifstream config(vendors / "config.ini");
  for (std::string line; std::getline(config, line);) {
    line = WithoutSpaces(line);
    if (line.rfind(key, 0) == 0) return Split(line.substr(key.size()), ',');
  }
  return {};
}

// The split operator libraries, which CANN has since 8.5: libopapi_nn.so first, the others by name.
std::vector<fs::path> SplitOperatorLibraries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> split;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("libopapi_", 0) == 0 && entry.path().extension() == ".so") split.push_back(entry.path());
  }
  if (error) throw std::runtime_error("cannot list " + folder.string() + ": " + error.message());
  const auto is_nn = [](const fs::path& path) { return path.filename() == "libopapi_nn.so"; };
  std::sort(split.begin(), split.end());
  std::stable_partition(split.begin(), split.end(), is_nn);
  return split;
}

// Collects the libraries of an installation whose lib64 is `folder`. Records in `found` those that must not be opened.
class CannSearch {
 public:
  CannSearch(const fs::path& folder, Discovery& found) : folder_(folder), found_(found) {}

  LibraryPaths Run() {
    paths_.runtime = FirstUsable({"libacl_rt.so", "libascendcl.so"});
    paths_.base = FirstUsable({"libnnopbase.so"});
    AppendCustomOperators();
    AppendToolkitOperators();
    return std::move(paths_);
  }

 private:
  bool IsUsable(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) return false;
    if (!IsStub(real)) return true;
    found_.libraries.push_back({path, "it is " + real.string() + ", which is for linking only"});
    return false;
  }

  fs::path FirstUsable(const std::vector<std::string>& names) {
    std::string tried;
    for (const std::string& name : names) {
      if (IsUsable(folder_ / name)) return folder_ / name;
      tried += (tried.empty() ? "" : " or ") + name;
    }
    throw std::runtime_error(tried + " is missing in " + folder_.string() +
                             " (ASCEND_HOME_PATH); install the CANN toolkit, release 8.5 or newer");
  }

  void Append(const fs::path& path) {
    const bool is_new = std::find(paths_.operators.begin(), paths_.operators.end(), path) == paths_.operators.end();
    if (is_new && IsUsable(path)) paths_.operators.push_back(path);
  }

  // Whether the folder may be searched. A relative path is refused: it depends on the working directory.
  bool IsFollowed(const fs::path& folder, const char* variable) {
    if (folder.is_absolute()) return true;
    found_.libraries.push_back(
        {folder, std::string("it is a relative path in ") + variable + ", which is not followed"});
    return false;
  }

  void AppendCustomOperators() {
    const fs::path library = fs::path("op_api") / "lib" / "libcust_opapi.so";
    for (const std::string& root : Split(Environment(kCustomOpp), ':')) {
      if (IsFollowed(root, kCustomOpp)) Append(root / library);
    }
    const std::string opp = Environment(kOpp);
    if (opp.empty() || !IsFollowed(opp, kOpp)) return;
    const fs::path vendors = fs::path(opp) / "vendors";
    for (const std::string& vendor : VendorsByPriority(vendors)) Append(vendors / vendor / library);
  }

  // The split libraries, or the single library of older releases. They must not be used together.
  void AppendToolkitOperators() {
    const std::size_t custom = paths_.operators.size();
    for (const fs::path& path : SplitOperatorLibraries(folder_)) Append(path);
    const fs::path whole = folder_ / "libopapi.so";
    if (paths_.operators.size() == custom) {
      Append(whole);
    } else if (IsUsable(whole)) {
      found_.libraries.push_back({whole, "it must not be used together with " + paths_.operators[custom].string()});
    }
  }

  const fs::path folder_;
  Discovery& found_;
  LibraryPaths paths_;
};

}  // namespace

LibraryPaths HostLibraryPaths() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&HostLibraryPaths), &self) == 0 || self.dli_fname == nullptr) {
    throw std::runtime_error("the loader does not tell where the execution provider's library lies");
  }
  const fs::path path = fs::absolute(self.dli_fname).parent_path() / "libaclnn_host.so";
  return {path, path, {path}};
}

LibraryPaths CannLibraryPaths(Discovery& found) {
  const std::string home = Environment("ASCEND_HOME_PATH");
  if (home.empty()) {
    throw std::runtime_error(
        "CANN was not found: ASCEND_HOME_PATH is not set; source the set_env.sh of the CANN toolkit");
  }
  if (fs::path(home).is_relative()) {
    throw std::runtime_error("CANN was not found: ASCEND_HOME_PATH is " + home +
                             ", a relative path, which is not followed; set it to an absolute one");
  }
  const fs::path folder = fs::path(home) / "lib64";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw std::runtime_error("CANN was not found: ASCEND_HOME_PATH names " + home + ", but there is no folder " +
                             folder.string() + (error ? ": " + error.message() : ""));
  }
  return CannSearch(folder, found).Run();
}

void* OpenLibrary(const std::filesystem::path& path) {
  if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  throw std::runtime_error("cannot open " + path.string() + ": " + (reason == nullptr ? "no reason given" : reason));
}

void* FindSymbol(void* library, const char* name) { return dlsym(library, name); }

void* FindOwnSymbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) return nullptr;
  Dl_info unused{};
  link_map* definer = nullptr;
  link_map* asked = nullptr;
  if (dladdr1(address, &unused, reinterpret_cast<void**>(&definer), RTLD_DL_LINKMAP) == 0) return nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &asked) != 0) return nullptr;
  return definer == asked ? address : nullptr;
}

}  // namespace poolgrad::aclnn
