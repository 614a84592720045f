// SPDX-License-Identifier: Apache-2.0

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

struct Advice {
  int code;
  const char* text;
};

constexpr char kSeeDevices[] = "see npu-smi info and ASCEND_RT_VISIBLE_DEVICES for the devices there are";
constexpr char kDeviceMemory[] = "the device is out of memory; use a smaller batch, or end what else runs on it";
constexpr char kInstallOps[] = "install the CANN operator package (ops) for this chip";
constexpr char kContext[] =
    "this thread has no context of the device any more, or another one; does something else in the process reset or "
    "switch devices?";
constexpr char kDeviceFault[] =
    "a kernel failed on the device, and every stream of its context may be unusable now; start the process again, and "
    "see the device log (~/ascend/log) for the kernel";

constexpr Advice kAdvice[] = {
    {ACL_ERROR_UNINITIALIZE, "something else in the process finalised acl"},
    {ACL_ERROR_RT_INVALID_DEVICEID, kSeeDevices},
    {ACL_ERROR_RT_NO_DEVICE, kSeeDevices},
    {ACL_ERROR_RT_CONTEXT_NULL, kContext},
    {ACL_ERROR_RT_STREAM_CONTEXT, kContext},
    {ACL_ERROR_BAD_ALLOC, "the host is out of memory"},
    {ACL_ERROR_RT_MEMORY_ALLOCATION, kDeviceMemory},
    {ACL_ERROR_RT_DEVICE_OOM, kDeviceMemory},
    {ACL_ERROR_RT_AICORE_TIMEOUT, kDeviceFault},
    {ACL_ERROR_RT_AICORE_EXCEPTION, kDeviceFault},
    {ACL_ERROR_RT_AICPU_EXCEPTION, kDeviceFault},
    {ACL_ERROR_RT_DRV_INTERNAL_ERROR, "is the driver older than the CANN release needs?"},
    {ACLNN_ERR_INNER_FIND_KERNEL_ERROR, kInstallOps},
    {ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, "ASCEND_OPP_PATH is not set; source the set_env.sh of the CANN toolkit"},
    {ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, kInstallOps},
};

// An operator finds its supported types through the current device: without one, it refuses every argument.
bool LacksDevice(const Api& api, int code) {
  if (code != ACLNN_ERR_PARAM_INVALID) return false;
  std::int32_t device = -1;
  const int current = api.aclrtGetDevice(&device);
  Tolerate(api, current);
  return current != ACL_SUCCESS;
}

std::string Describe(const Api& api, const char* function, const std::string& failure) {
  // Copied at once: reading clears the message, and the next call may overwrite the buffer.
  const char* recent = api.aclGetRecentErrMsg();
  const bool told = recent != nullptr && recent[0] != '\0';
  return std::string(function) + " " + failure + (told ? std::string(": ") + recent : "");
}

std::string AdviceFor(const Api& api, int code) {
  if (LacksDevice(api, code)) return std::string("; ") + kContext;
  for (const Advice& advice : kAdvice) {
    if (advice.code == code) return std::string("; ") + advice.text;
  }
  return "";
}

}  // namespace

void ThrowFailure(const Api& api, const char* function, int code) {
  const std::string name = std::to_string(code) + " (" + AclErrorNameOf(code) + ")";
  const std::string text = Describe(api, function, "failed with " + name);
  throw CallError(code, text + AdviceFor(api, code));
}

void CheckCreated(const Api& api, const char* function, const void* made) {
  if (made == nullptr) throw std::runtime_error(Describe(api, function, "returned null"));
}

}  // namespace poolgrad::aclnn
