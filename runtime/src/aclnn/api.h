// The functions of acl and aclnn that the provider calls, as a table of pointers resolved at run time.
#ifndef POOLGRAD_ACLNN_API_H_
#define POOLGRAD_ACLNN_API_H_

#include "abi/acl.h"
#include "aclnn/libraries.h"

namespace poolgrad::aclnn {

#define POOLGRAD_ACL_RUNTIME_SYMBOLS(X) \
  X(aclInit)                            \
  X(aclGetRecentErrMsg)                 \
  X(aclrtGetSocName)                    \
  X(aclrtGetDeviceCount)                \
  X(aclrtSetDevice)                     \
  X(aclrtGetDevice)                     \
  X(aclrtCreateStream)                  \
  X(aclrtDestroyStream)                 \
  X(aclrtSynchronizeStream)             \
  X(aclrtMalloc)                        \
  X(aclrtFree)                          \
  X(aclrtMemcpy)

#define POOLGRAD_ACL_BASE_SYMBOLS(X) \
  X(aclCreateTensor)                 \
  X(aclDestroyTensor)                \
  X(aclCreateIntArray)               \
  X(aclDestroyIntArray)              \
  X(aclDestroyAclOpExecutor)

// An aclnn operator: phase 1 checks and plans, phase 2 runs the plan on a stream.
template <typename GetWorkspaceSize>
struct Operator {
  using Execute = decltype(aclnnMaxPool3dWithArgmaxBackward);
  const char* phase_1;  // names of the two functions
  const char* phase_2;
  GetWorkspaceSize* get_workspace_size = nullptr;
  Execute* execute = nullptr;
};

using MaxPoolBackward = Operator<decltype(aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize)>;
using AdaptiveMaxPoolBackward = Operator<decltype(aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize)>;

struct Api {
#define POOLGRAD_MEMBER(symbol) decltype(&::symbol) symbol = nullptr;
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_MEMBER)
#undef POOLGRAD_MEMBER
  MaxPoolBackward max_pool_3d{"aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize", "aclnnMaxPool3dWithArgmaxBackward"};
  MaxPoolBackward max_pool_2d{"aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize", "aclnnMaxPool2dWithIndicesBackward"};
  AdaptiveMaxPoolBackward adaptive_3d{"aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize",
                                      "aclnnAdaptiveMaxPool3dBackward"};
  AdaptiveMaxPoolBackward adaptive_2d{"aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize",
                                      "aclnnAdaptiveMaxPool2dBackward"};
};

// Opens the libraries and resolves every member. Throws std::runtime_error that names the library or symbol.
Api LoadApi(const LibraryPaths& paths);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_API_H_
