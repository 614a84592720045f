// SPDX-License-Identifier: Apache-2.0

#include "aclnn/api.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace poolgrad::aclnn {
namespace {

namespace fs = std::filesystem;

// Records a library once, even if it has several roles.
void Note(FoundLibrary library, Discovery& found) {
  for (const FoundLibrary& other : found.libraries) {
    if (other.path == library.path) return;
  }
  found.libraries.push_back(std::move(library));
}

void* Open(const fs::path& path, Discovery& found) {
  try {
    void* library = OpenLibrary(path);
    Note({path, ""}, found);
    return library;
  } catch (const std::runtime_error& error) {
    Note({path, error.what()}, found);
    throw;
  }
}

// Looks up the symbols that acl and the aclnn base must have. A missing symbol does not end the search, so that a
// report names every one.
class Symbols {
 public:
  explicit Symbols(Discovery& found) : found_(found) {}

  template <typename Pointer>
  void Resolve(Pointer& pointer, void* library, const fs::path& path, const char* name) {
    pointer = reinterpret_cast<Pointer>(FindSymbol(library, name));
    if (pointer != nullptr) return;
    found_.missing_symbols.push_back(name);
    if (first_missing_.empty()) first_missing_ = path.string() + " has no symbol " + name;
  }

  void RequireAll() const {
    if (!first_missing_.empty()) throw std::runtime_error(first_missing_ + "; CANN 8.5 or newer is needed");
  }

 private:
  Discovery& found_;
  std::string first_missing_;
};

// The operator libraries. Each is opened when the libraries before it lack an operator.
class OperatorLibraries {
 public:
  OperatorLibraries(const std::vector<fs::path>& paths, Discovery& found) : paths_(paths), found_(found) {}

  void Resolve(Function& function) {
    found_.operators.push_back({function.phase_2, {}});
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      void* library = Opened(i);
      if (library == nullptr) continue;
      // Both phases must come from one library: an executor of one library means nothing to another. dlsym alone would
      // also search the libraries that this one depends on.
      void* get_workspace_size = FindOwnSymbol(library, function.phase_1);
      void* execute = FindOwnSymbol(library, function.phase_2);
      if (get_workspace_size == nullptr || execute == nullptr) continue;
      function.get_workspace_size = get_workspace_size;
      function.execute = reinterpret_cast<decltype(function.execute)>(execute);
      found_.operators.back().library = paths_[i];
      any_ = true;
      return;
    }
  }

  void RequireAny() const {
    if (any_) return;
    std::string text = "no operator library has any of";
    for (const FoundOperator& op : found_.operators) text += " " + op.name;
    text += paths_.empty() ? "; there is no library, such as libopapi_nn.so" : "; looked in";
    for (const fs::path& path : paths_) text += " " + path.string();
    throw std::runtime_error(text + problems_);
  }

 private:
  // Null if it cannot be opened: another library may have the operators.
  void* Opened(std::size_t i) {
    if (i == opened_.size()) {
      try {
        opened_.push_back(Open(paths_[i], found_));
      } catch (const std::runtime_error& error) {
        problems_ += std::string("; ") + error.what();
        opened_.push_back(nullptr);
      }
    }
    return opened_[i];
  }

  const std::vector<fs::path>& paths_;
  Discovery& found_;
  std::vector<void*> opened_;
  std::string problems_;
  bool any_ = false;
};

}  // namespace

Api LoadApi(const LibraryPaths& paths, Discovery& found) {
  Api api;
  void* runtime = Open(paths.runtime, found);
  void* base = Open(paths.base, found);
  Symbols symbols(found);
#define POOLGRAD_FROM_RUNTIME(symbol) symbols.Resolve(api.symbol, runtime, paths.runtime, #symbol);
#define POOLGRAD_FROM_BASE(symbol) symbols.Resolve(api.symbol, base, paths.base, #symbol);
#define POOLGRAD_IF_PRESENT(symbol) api.symbol = reinterpret_cast<decltype(api.symbol)>(FindSymbol(runtime, #symbol));
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_FROM_RUNTIME)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_FROM_BASE)
  POOLGRAD_ACL_OPTIONAL_SYMBOLS(POOLGRAD_IF_PRESENT)
#undef POOLGRAD_FROM_RUNTIME
#undef POOLGRAD_FROM_BASE
#undef POOLGRAD_IF_PRESENT
  OperatorLibraries operators(paths.operators, found);
  for (Function& function : api.functions) operators.Resolve(function);
  symbols.RequireAll();
  operators.RequireAny();
  return api;
}

}  // namespace poolgrad::aclnn
