// SPDX-License-Identifier: Apache-2.0

// The functions of acl and aclnn that the provider calls, as a table of pointers resolved at run time.
#ifndef POOLGRAD_ACLNN_API_H_
#define POOLGRAD_ACLNN_API_H_

#include "abi/acl.h"
#include "abi/acl_host.h"
#include "aclnn/discovery.h"
#include "aclnn/libraries.h"

namespace poolgrad::aclnn {

// The backend cannot be used without these.
#define POOLGRAD_ACL_RUNTIME_SYMBOLS(X) \
  X(aclInit)                            \
  X(aclGetRecentErrMsg)                 \
  X(aclrtGetSocName)                    \
  X(aclrtGetDeviceCount)                \
  X(aclrtSetDevice)                     \
  X(aclrtGetDevice)                     \
  X(aclrtGetCurrentContext)             \
  X(aclrtSetCurrentContext)             \
  X(aclrtGetRunMode)                    \
  X(aclrtCtxSetSysParamOpt)             \
  X(aclrtCreateStream)                  \
  X(aclrtDestroyStream)                 \
  X(aclrtSynchronizeStream)             \
  X(aclrtCreateEventWithFlag)           \
  X(aclrtDestroyEvent)                  \
  X(aclrtRecordEvent)                   \
  X(aclrtSynchronizeEvent)              \
  X(aclrtSynchronizeDevice)             \
  X(aclrtMalloc)                        \
  X(aclrtFree)                          \
  X(aclrtMallocHost)                    \
  X(aclrtFreeHost)                      \
  X(aclrtMemcpyAsync)                   \
  X(aclrtMemsetAsync)

// Null in CANN releases that lack them; no CANN release has the last one.
#define POOLGRAD_ACL_OPTIONAL_SYMBOLS(X) \
  X(aclrtGetDeviceInfo)                  \
  X(aclsysGetVersionStr)                 \
  X(aclnnHostSetParallelFor)

#define POOLGRAD_ACL_BASE_SYMBOLS(X) \
  X(aclCreateTensor)                 \
  X(aclDestroyTensor)                \
  X(aclCreateIntArray)               \
  X(aclDestroyIntArray)              \
  X(aclSetTensorAddr)                \
  X(aclSetAclOpExecutorRepeatable)   \
  X(aclDestroyAclOpExecutor)

// An aclnn operator: phase 1 checks a call and creates an executor, phase 2 runs the executor on a stream.
struct Function {
  const char* phase_1;  // names of the two functions
  const char* phase_2;
  decltype(&aclnnMaxPool3dWithArgmax) execute = nullptr;

  bool found() const { return execute != nullptr; }
};

template <typename GetWorkspaceSize>
struct Operator : Function {
  GetWorkspaceSize* get_workspace_size = nullptr;
};

using MaxPool = Operator<decltype(aclnnMaxPool3dWithArgmaxGetWorkspaceSize)>;
using AdaptiveMaxPool = Operator<decltype(aclnnAdaptiveMaxPool3dGetWorkspaceSize)>;
using MaxPoolBackward = Operator<decltype(aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize)>;
using AdaptiveMaxPoolBackward = Operator<decltype(aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize)>;

struct Api {
#define POOLGRAD_MEMBER(symbol) decltype(&::symbol) symbol = nullptr;
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_OPTIONAL_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_MEMBER)
#undef POOLGRAD_MEMBER
  // Each of the operators may be missing.
  MaxPool max_pool_3d{{"aclnnMaxPool3dWithArgmaxGetWorkspaceSize", "aclnnMaxPool3dWithArgmax"}};
  MaxPool max_pool_2d{{"aclnnMaxPool2dWithIndicesGetWorkspaceSize", "aclnnMaxPool2dWithIndices"}};
  AdaptiveMaxPool adaptive_3d{{"aclnnAdaptiveMaxPool3dGetWorkspaceSize", "aclnnAdaptiveMaxPool3d"}};
  AdaptiveMaxPool adaptive_2d{{"aclnnAdaptiveMaxPool2dGetWorkspaceSize", "aclnnAdaptiveMaxPool2d"}};
  MaxPoolBackward max_pool_3d_backward{
      {"aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize", "aclnnMaxPool3dWithArgmaxBackward"}};
  MaxPoolBackward max_pool_2d_backward{
      {"aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize", "aclnnMaxPool2dWithIndicesBackward"}};
  AdaptiveMaxPoolBackward adaptive_3d_backward{
      {"aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize", "aclnnAdaptiveMaxPool3dBackward"}};
  AdaptiveMaxPoolBackward adaptive_2d_backward{
      {"aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize", "aclnnAdaptiveMaxPool2dBackward"}};
};

// An operator of aclnn, for both directions.
enum class Entry { kMaxPool3d, kMaxPool2d, kAdaptive3d, kAdaptive2d };

constexpr bool IsAdaptive(Entry entry) { return entry == Entry::kAdaptive3d || entry == Entry::kAdaptive2d; }

// The number of axes of the entry's windows, and of its output size.
constexpr std::size_t AxesOf(Entry entry) { return entry == Entry::kMaxPool3d || entry == Entry::kAdaptive3d ? 3 : 2; }

const Function& ForwardFunction(const Api& api, Entry entry);
const Function& BackwardFunction(const Api& api, Entry entry);

// Opens the libraries and resolves every member. `found` receives what was found, also if the call throws. Throws
// std::runtime_error, which names the library or symbol, if all operators or anything other than an operator is
// missing.
Api LoadApi(const LibraryPaths& paths, Discovery& found);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_API_H_
