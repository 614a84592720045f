// SPDX-License-Identifier: Apache-2.0

// CANN's C ABI as tables: the enumerations, flags and functions that this project calls (through dlopen) and implements
// (libaclnn_host.so). abi/acl.h declares what they list, abi/acl_check.cpp compares them with CANN's public headers,
// which are those of releases 8.5.0 and later. Expanding a table needs <cstddef>, <cstdint> and the types it names.
#ifndef POOLGRAD_ABI_ACL_TABLES_H_
#define POOLGRAD_ABI_ACL_TABLES_H_

#include "abi/aclnn_table.h"

// Enumerators; X(name, value).

#define POOLGRAD_ACL_DATA_TYPE(X) \
  X(ACL_DT_UNDEFINED, -1)         \
  X(ACL_FLOAT, 0)                 \
  X(ACL_FLOAT16, 1)               \
  X(ACL_INT8, 2)                  \
  X(ACL_INT32, 3)                 \
  X(ACL_UINT8, 4)                 \
  X(ACL_INT16, 6)                 \
  X(ACL_UINT16, 7)                \
  X(ACL_UINT32, 8)                \
  X(ACL_INT64, 9)                 \
  X(ACL_UINT64, 10)               \
  X(ACL_DOUBLE, 11)               \
  X(ACL_BOOL, 12)                 \
  X(ACL_BF16, 27)

#define POOLGRAD_ACL_FORMAT(X)       \
  X(ACL_FORMAT_UNDEFINED, -1)        \
  X(ACL_FORMAT_NCHW, 0)              \
  X(ACL_FORMAT_NHWC, 1)              \
  X(ACL_FORMAT_ND, 2)                \
  X(ACL_FORMAT_NC1HWC0, 3)           \
  X(ACL_FORMAT_FRACTAL_Z, 4)         \
  X(ACL_FORMAT_NC1HWC0_C04, 12)      \
  X(ACL_FORMAT_HWCN, 16)             \
  X(ACL_FORMAT_NDHWC, 27)            \
  X(ACL_FORMAT_FRACTAL_NZ, 29)       \
  X(ACL_FORMAT_NCDHW, 30)            \
  X(ACL_FORMAT_NDC1HWC0, 32)         \
  X(ACL_FRACTAL_Z_3D, 33)            \
  X(ACL_FORMAT_NC, 35)               \
  X(ACL_FORMAT_NCL, 47)              \
  X(ACL_FORMAT_FRACTAL_NZ_C0_16, 50) \
  X(ACL_FORMAT_FRACTAL_NZ_C0_32, 51) \
  X(ACL_FORMAT_FRACTAL_NZ_C0_2, 52)  \
  X(ACL_FORMAT_FRACTAL_NZ_C0_4, 53)  \
  X(ACL_FORMAT_FRACTAL_NZ_C0_8, 54)

#define POOLGRAD_ACL_MEMCPY_KIND(X) \
  X(ACL_MEMCPY_HOST_TO_HOST, 0)     \
  X(ACL_MEMCPY_HOST_TO_DEVICE, 1)   \
  X(ACL_MEMCPY_DEVICE_TO_HOST, 2)   \
  X(ACL_MEMCPY_DEVICE_TO_DEVICE, 3)

#define POOLGRAD_ACL_MEM_MALLOC_POLICY(X) \
  X(ACL_MEM_MALLOC_HUGE_FIRST, 0)         \
  X(ACL_MEM_MALLOC_HUGE_ONLY, 1)          \
  X(ACL_MEM_MALLOC_NORMAL_ONLY, 2)

#define POOLGRAD_ACL_RUN_MODE(X)                                                  \
  X(ACL_DEVICE, 0) /* the process runs beside the device and shares its memory */ \
  X(ACL_HOST, 1)

#define POOLGRAD_ACL_STREAM_STATUS(X) \
  X(ACL_STREAM_STATUS_COMPLETE, 0)    \
  X(ACL_STREAM_STATUS_NOT_READY, 1)

#define POOLGRAD_ACL_EVENT_RECORDED_STATUS(X) \
  X(ACL_EVENT_RECORDED_STATUS_NOT_READY, 0)   \
  X(ACL_EVENT_RECORDED_STATUS_COMPLETE, 1)

#define POOLGRAD_ACL_MEM_ATTR(X) \
  X(ACL_DDR_MEM, 0)              \
  X(ACL_HBM_MEM, 1)

#define POOLGRAD_ACL_DEV_ATTR(X) X(ACL_DEV_ATTR_NPU_ARCH, 601) /* since 9.1.0 */

#define POOLGRAD_ACL_SYS_PARAM_OPT(X) \
  X(ACL_OPT_DETERMINISTIC, 0)         \
  X(ACL_OPT_ENABLE_DEBUG_KERNEL, 1)   \
  X(ACL_OPT_STRONG_CONSISTENCY, 2)

// Every enumeration; X(name, table of its enumerators).
#define POOLGRAD_ACL_ENUMERATIONS(X)                              \
  X(aclDataType, POOLGRAD_ACL_DATA_TYPE)                          \
  X(aclFormat, POOLGRAD_ACL_FORMAT)                               \
  X(aclrtMemcpyKind, POOLGRAD_ACL_MEMCPY_KIND)                    \
  X(aclrtMemMallocPolicy, POOLGRAD_ACL_MEM_MALLOC_POLICY)         \
  X(aclrtRunMode, POOLGRAD_ACL_RUN_MODE)                          \
  X(aclrtStreamStatus, POOLGRAD_ACL_STREAM_STATUS)                \
  X(aclrtEventRecordedStatus, POOLGRAD_ACL_EVENT_RECORDED_STATUS) \
  X(aclrtMemAttr, POOLGRAD_ACL_MEM_ATTR)                          \
  X(aclrtDevAttr, POOLGRAD_ACL_DEV_ATTR)                          \
  X(aclSysParamOpt, POOLGRAD_ACL_SYS_PARAM_OPT)

// Flags of aclrtCreateEventWithFlag; X(name, value).
#define POOLGRAD_ACL_EVENT_FLAGS(X) X(ACL_EVENT_SYNC, 1) /* orders streams and the host, without time stamps */

// Functions; X(result, name, parameters).

// Process, device, stream, memory (libacl_rt.so or libascendcl.so).
#define POOLGRAD_ACL_RUNTIME_FUNCTIONS(X)                                                                    \
  X(aclError, aclInit, (const char* configPath))                                                             \
  X(aclError, aclFinalize, ())                                                                               \
  X(const char*, aclGetRecentErrMsg, ())                                                                     \
  X(const char*, aclrtGetSocName, ())                                                                        \
  X(aclError, aclrtGetDeviceCount, (uint32_t* count))                                                        \
  X(aclError, aclrtGetDeviceInfo, (uint32_t deviceId, aclrtDevAttr attr, int64_t* value))                    \
  X(aclError, aclrtSetDevice, (int32_t deviceId))                                                            \
  X(aclError, aclrtResetDevice, (int32_t deviceId))                                                          \
  X(aclError, aclrtGetDevice, (int32_t* deviceId))                                                           \
  X(aclError, aclrtGetCurrentContext, (aclrtContext * context))                                              \
  X(aclError, aclrtSetCurrentContext, (aclrtContext context))                                                \
  X(aclError, aclrtGetRunMode, (aclrtRunMode * runMode))                                                     \
  X(aclError, aclsysGetVersionStr, (char* pkgName, char* versionStr))                                        \
  X(aclError, aclrtCtxSetSysParamOpt, (aclSysParamOpt opt, int64_t value))                                   \
  X(aclError, aclrtCtxGetSysParamOpt, (aclSysParamOpt opt, int64_t* value))                                  \
  X(aclError, aclrtSetSysParamOpt, (aclSysParamOpt opt, int64_t value))                                      \
  X(aclError, aclrtGetSysParamOpt, (aclSysParamOpt opt, int64_t* value))                                     \
  X(aclError, aclrtCreateStream, (aclrtStream * stream))                                                     \
  X(aclError, aclrtDestroyStream, (aclrtStream stream))                                                      \
  X(aclError, aclrtSynchronizeStream, (aclrtStream stream))                                                  \
  X(aclError, aclrtSynchronizeDevice, ())                                                                    \
  X(aclError, aclrtStreamQuery, (aclrtStream stream, aclrtStreamStatus * status))                            \
  X(aclError, aclrtCreateEventWithFlag, (aclrtEvent * event, uint32_t flag))                                 \
  X(aclError, aclrtDestroyEvent, (aclrtEvent event))                                                         \
  X(aclError, aclrtRecordEvent, (aclrtEvent event, aclrtStream stream))                                      \
  X(aclError, aclrtStreamWaitEvent, (aclrtStream stream, aclrtEvent event))                                  \
  X(aclError, aclrtSynchronizeEvent, (aclrtEvent event))                                                     \
  X(aclError, aclrtQueryEventStatus, (aclrtEvent event, aclrtEventRecordedStatus * status))                  \
  X(aclError, aclrtMalloc, (void** devPtr, size_t size, aclrtMemMallocPolicy policy))                        \
  X(aclError, aclrtFree, (void* devPtr))                                                                     \
  X(aclError, aclrtGetMemInfo, (aclrtMemAttr attr, size_t* free, size_t* total))                             \
  X(aclError, aclrtMallocHost, (void** hostPtr, size_t size))                                                \
  X(aclError, aclrtFreeHost, (void* hostPtr))                                                                \
  X(aclError, aclrtMemcpy, (void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind)) \
  X(aclError, aclrtMemcpyAsync,                                                                              \
    (void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream stream))    \
  X(aclError, aclrtMemset, (void* devPtr, size_t maxCount, int32_t value, size_t count))                     \
  X(aclError, aclrtMemsetAsync, (void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream))

// Tensors, int arrays, executors (libnnopbase.so).
#define POOLGRAD_ACL_BASE_FUNCTIONS(X)                                                                            \
  X(aclTensor*, aclCreateTensor,                                                                                  \
    (const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride, int64_t offset,  \
     aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData))                    \
  X(aclnnStatus, aclDestroyTensor, (const aclTensor* tensor))                                                     \
  X(aclIntArray*, aclCreateIntArray, (const int64_t* value, uint64_t size))                                       \
  X(aclnnStatus, aclDestroyIntArray, (const aclIntArray* array))                                                  \
  X(aclnnStatus, aclSetTensorAddr, (aclOpExecutor * executor, const size_t index, aclTensor* tensor, void* addr)) \
  X(aclnnStatus, aclSetAclOpExecutorRepeatable, (aclOpExecutor * executor))                                       \
  X(aclnnStatus, aclDestroyAclOpExecutor, (aclOpExecutor * executor))

// The signatures of the operators (libopapi_nn.so or libopapi.so), each in two phases; abi/aclnn_table.h lists them.
#define POOLGRAD_ACLNN_MAX_POOL_PARAMETERS                                                                      \
  (const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* stride, const aclIntArray* padding, \
   const aclIntArray* dilation, bool ceilMode, aclTensor* out, aclTensor* indices, uint64_t* workspaceSize,     \
   aclOpExecutor** executor)
#define POOLGRAD_ACLNN_EXECUTE_PARAMETERS \
  (void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)
#define POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_PARAMETERS                                                   \
  (const aclTensor* self, const aclIntArray* outputSize, aclTensor* outputOut, aclTensor* indicesOut, \
   uint64_t* workspaceSize, aclOpExecutor** executor)
#define POOLGRAD_ACLNN_MAX_POOL_BACKWARD_PARAMETERS                                                             \
  (const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, const aclIntArray* kernelSize, \
   const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool ceilMode,           \
   aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor)
#define POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_BACKWARD_PARAMETERS                                           \
  (const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, aclTensor* gradInput, \
   uint64_t* workspaceSize, aclOpExecutor** executor)
#define POOLGRAD_ACLNN_AVG_POOL_2D_BACKWARD_PARAMETERS                                                            \
  (const aclTensor* gradOutput, const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* stride,  \
   const aclIntArray* padding, bool ceilMode, bool countIncludePad, int64_t divisorOverride, int8_t cubeMathType, \
   aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor)
#define POOLGRAD_ACLNN_AVG_POOL_3D_BACKWARD_PARAMETERS                                                           \
  (const aclTensor* gradOutput, const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* stride, \
   const aclIntArray* padding, bool ceilMode, bool countIncludePad, int64_t divisorOverride, aclTensor* output,  \
   uint64_t* workspaceSize, aclOpExecutor** executor)
#define POOLGRAD_ACLNN_ADAPTIVE_AVG_POOL_BACKWARD_PARAMETERS                                    \
  (const aclTensor* gradOutput, const aclTensor* self, aclTensor* out, uint64_t* workspaceSize, \
   aclOpExecutor** executor)

// All of them.
#define POOLGRAD_ACL_FUNCTIONS(X)   \
  POOLGRAD_ACL_RUNTIME_FUNCTIONS(X) \
  POOLGRAD_ACL_BASE_FUNCTIONS(X)    \
  POOLGRAD_ACLNN_OPERATOR_FUNCTIONS(X)

#endif  // POOLGRAD_ABI_ACL_TABLES_H_
