#include "aclnn/api.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace poolgrad::aclnn {
namespace {

namespace fs = std::filesystem;

template <typename Function>
void Resolve(Function*& function, void* library, const fs::path& path, const char* name) {
  function = reinterpret_cast<Function*>(FindSymbol(library, name));
  if (function == nullptr) {
    throw std::runtime_error(path.string() + " has no symbol " + name + "; CANN 8.5 or newer is needed");
  }
}

// The operator libraries, each opened when an operator was not found in the ones before it.
class OperatorLibraries {
 public:
  explicit OperatorLibraries(const std::vector<fs::path>& paths) : paths_(paths) {}

  // Both phases must come from one library: an executor of one library means nothing to another.
  template <typename GetWorkspaceSize>
  void Resolve(Operator<GetWorkspaceSize>& op) {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      void* library = Open(i);
      void* plan = FindSymbol(library, op.phase_1);
      void* execute = FindSymbol(library, op.phase_2);
      if (plan == nullptr || execute == nullptr) continue;
      op.get_workspace_size = reinterpret_cast<GetWorkspaceSize*>(plan);
      op.execute = reinterpret_cast<typename Operator<GetWorkspaceSize>::Execute*>(execute);
      return;
    }
    throw std::runtime_error(std::string("no operator library has ") + op.phase_1 + " and " + op.phase_2 +
                             "; looked in " + Names());
  }

 private:
  void* Open(std::size_t i) {
    if (i == opened_.size()) opened_.push_back(OpenLibrary(paths_[i]));
    return opened_[i];
  }

  std::string Names() const {
    std::string names;
    for (const fs::path& path : paths_) names += (names.empty() ? "" : ", ") + path.string();
    return names.empty() ? "no library: there is no libopapi_nn.so beside libnnopbase.so" : names;
  }

  const std::vector<fs::path>& paths_;
  std::vector<void*> opened_;
};

}  // namespace

Api LoadApi(const LibraryPaths& paths) {
  Api api;
  void* runtime = OpenLibrary(paths.runtime);
  void* base = OpenLibrary(paths.base);
#define POOLGRAD_FROM_RUNTIME(symbol) Resolve(api.symbol, runtime, paths.runtime, #symbol);
#define POOLGRAD_FROM_BASE(symbol) Resolve(api.symbol, base, paths.base, #symbol);
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_FROM_RUNTIME)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_FROM_BASE)
#undef POOLGRAD_FROM_RUNTIME
#undef POOLGRAD_FROM_BASE
  OperatorLibraries operators(paths.operators);
  operators.Resolve(api.max_pool_3d_backward);
  operators.Resolve(api.max_pool_2d_backward);
  operators.Resolve(api.adaptive_3d_backward);
  operators.Resolve(api.adaptive_2d_backward);
  operators.Resolve(api.max_pool_3d);
  operators.Resolve(api.max_pool_2d);
  operators.Resolve(api.adaptive_3d);
  operators.Resolve(api.adaptive_2d);
  return api;
}

}  // namespace poolgrad::aclnn
