// SPDX-License-Identifier: Apache-2.0

// The functions of acl and aclnn that the provider calls, as a table of pointers resolved at run time.
#ifndef POOLGRAD_ACLNN_API_H_
#define POOLGRAD_ACLNN_API_H_

#include "abi/acl.h"
#include "abi/acl_host.h"
#include "aclnn/discovery.h"
#include "aclnn/function.h"
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

struct Api {
#define POOLGRAD_MEMBER(symbol) decltype(&::symbol) symbol = nullptr;
  POOLGRAD_ACL_RUNTIME_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_OPTIONAL_SYMBOLS(POOLGRAD_MEMBER)
  POOLGRAD_ACL_BASE_SYMBOLS(POOLGRAD_MEMBER)
#undef POOLGRAD_MEMBER
  std::array<Function, kFunctionCount> functions = kFunctions;  // each of the operators may be missing

  const Function& function(Entry entry) const { return functions[static_cast<std::size_t>(entry)]; }
};

// Opens the libraries and resolves every member. `found` receives what was found, also if the call throws. Throws
// std::runtime_error, which names the library or symbol, if all operators or anything other than an operator is
// missing.
Api LoadApi(const LibraryPaths& paths, Discovery& found);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_API_H_
