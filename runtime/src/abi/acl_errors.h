// Return codes of acl and aclnn, and their names. Values as CANN's public headers have them.
#ifndef POOLGRAD_ABI_ACL_ERRORS_H_
#define POOLGRAD_ABI_ACL_ERRORS_H_

#include <cstdint>

// One row per code; X(name, value).
#define POOLGRAD_ACL_ERRORS(X)                  \
  X(ACL_SUCCESS, 0)                             \
  X(ACL_ERROR_INVALID_PARAM, 100000)            \
  X(ACL_ERROR_UNINITIALIZE, 100001)             \
  X(ACL_ERROR_REPEAT_INITIALIZE, 100002)        \
  X(ACL_ERROR_REPEAT_FINALIZE, 100037)          \
  X(ACL_ERROR_RT_PARAM_INVALID, 107000)         \
  X(ACL_ERROR_RT_INVALID_DEVICEID, 107001)      \
  X(ACL_ERROR_RT_CONTEXT_NULL, 107002)          \
  X(ACL_ERROR_RT_STREAM_CONTEXT, 107003)        \
  X(ACL_ERROR_RT_INVALID_HANDLE, 107017)        \
  X(ACL_ERROR_RT_WAIT_TIMEOUT, 107019)          \
  X(ACL_ERROR_RT_TASK_TIMEOUT, 107020)          \
  X(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, 107021)   \
  X(ACLNN_ERR_PARAM_NULLPTR, 161001)            \
  X(ACLNN_ERR_PARAM_INVALID, 161002)            \
  X(ACL_ERROR_BAD_ALLOC, 200000)                \
  X(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 207000)   \
  X(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001)     \
  X(ACL_ERROR_RT_NO_DEVICE, 207004)             \
  X(ACL_ERROR_RT_DEVICE_OOM, 207018)            \
  X(ACLNN_ERR_RUNTIME_ERROR, 361001)            \
  X(ACL_ERROR_INTERNAL_ERROR, 500000)           \
  X(ACL_ERROR_RT_INTERNAL_ERROR, 507000)        \
  X(ACL_ERROR_RT_MODEL_EXECUTE, 507011)         \
  X(ACL_ERROR_RT_AICORE_TIMEOUT, 507014)        \
  X(ACL_ERROR_RT_AICORE_EXCEPTION, 507015)      \
  X(ACL_ERROR_RT_AICPU_TIMEOUT, 507017)         \
  X(ACL_ERROR_RT_AICPU_EXCEPTION, 507018)       \
  X(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 507046)   \
  X(ACL_ERROR_RT_DRV_INTERNAL_ERROR, 507899)    \
  X(ACLNN_ERR_INNER, 561000)                    \
  X(ACLNN_ERR_INNER_INFERSHAPE_ERROR, 561001)   \
  X(ACLNN_ERR_INNER_TILING_ERROR, 561002)       \
  X(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, 561003)  \
  X(ACLNN_ERR_INNER_CREATE_EXECUTOR, 561101)    \
  X(ACLNN_ERR_INNER_NULLPTR, 561103)            \
  X(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, 561107) \
  X(ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, 561112)

#define POOLGRAD_ACL_CONSTANT(name, value) constexpr int name = value;
POOLGRAD_ACL_ERRORS(POOLGRAD_ACL_CONSTANT)
#undef POOLGRAD_ACL_CONSTANT

constexpr int ACLNN_SUCCESS = ACL_SUCCESS;

namespace poolgrad {

struct AclErrorName {
  int code;
  const char* name;
};

#define POOLGRAD_ACL_ROW(name, value) {value, #name},
constexpr AclErrorName kAclErrorNames[] = {POOLGRAD_ACL_ERRORS(POOLGRAD_ACL_ROW)};
#undef POOLGRAD_ACL_ROW

// The name of a return code of acl or aclnn; "unknown code" for one that the table lacks.
constexpr const char* AclErrorNameOf(int code) {
  for (const AclErrorName& row : kAclErrorNames) {
    if (row.code == code) return row.name;
  }
  return "unknown code";
}

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_ACL_ERRORS_H_
