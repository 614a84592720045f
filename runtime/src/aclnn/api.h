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

using MaxPool = Operator<decltype(aclnnMaxPool3dWithArgmaxGetWorkspaceSize)>;
using AdaptiveMaxPool = Operator<decltype(aclnnAdaptiveMaxPool3dGetWorkspaceSize)>;
using MaxPoolBackward = Operator<decltype(aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize)>;
using AdaptiveMaxPoolBackward = Operator<decltype(aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize)>;

struct Api {
#define POOLGRAD_MEMBER(symbol) decltype(&::symbol) symbol = nullptr;
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_MEMBER)
#undef POOLGRAD_MEMBER
  MaxPool max_pool_3d{"aclnnMaxPool3dWithArgmaxGetWorkspaceSize", "aclnnMaxPool3dWithArgmax"};
  MaxPool max_pool_2d{"aclnnMaxPool2dWithIndicesGetWorkspaceSize", "aclnnMaxPool2dWithIndices"};
  AdaptiveMaxPool adaptive_3d{"aclnnAdaptiveMaxPool3dGetWorkspaceSize", "aclnnAdaptiveMaxPool3d"};
  AdaptiveMaxPool adaptive_2d{"aclnnAdaptiveMaxPool2dGetWorkspaceSize", "aclnnAdaptiveMaxPool2d"};
  MaxPoolBackward max_pool_3d_backward{"aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize",
                                       "aclnnMaxPool3dWithArgmaxBackward"};
  MaxPoolBackward max_pool_2d_backward{"aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize",
                                       "aclnnMaxPool2dWithIndicesBackward"};
  AdaptiveMaxPoolBackward adaptive_3d_backward{"aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize",
                                               "aclnnAdaptiveMaxPool3dBackward"};
  AdaptiveMaxPoolBackward adaptive_2d_backward{"aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize",
                                               "aclnnAdaptiveMaxPool2dBackward"};
};

// Opens the libraries and resolves every member. Throws std::runtime_error that names the library or symbol.
Api LoadApi(const LibraryPaths& paths);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_API_H_
