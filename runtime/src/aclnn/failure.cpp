#include "aclnn/failure.h"

#include <stdexcept>
#include <string>

namespace poolgrad::aclnn {
namespace {

struct Advice {
  int code;
  const char* text;
};

constexpr Advice kAdvice[] = {
    {ACL_ERROR_RT_INVALID_DEVICEID, "see npu-smi info and ASCEND_RT_VISIBLE_DEVICES for the devices there are"},
    {ACL_ERROR_RT_NO_DEVICE, "see npu-smi info and ASCEND_RT_VISIBLE_DEVICES for the devices there are"},
    {ACL_ERROR_RT_STREAM_CONTEXT, "another library switched this thread to a context of its own"},
    {ACL_ERROR_BAD_ALLOC, "the host is out of memory"},
    {ACL_ERROR_RT_MEMORY_ALLOCATION, "the device is out of memory; use a smaller batch"},
    {ACL_ERROR_RT_DEVICE_OOM, "the device is out of memory; use a smaller batch"},
    {ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, "ASCEND_OPP_PATH is not set; source the set_env.sh of the CANN toolkit"},
    {ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, "install the CANN operator package (ops) for this chip"},
    {ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "install the CANN operator package (ops) for this chip"},
};

std::string Describe(const Api& api, const char* function, int code) {
  std::string text = std::string(function) + " failed with " + std::to_string(code) + " (" + AclErrorNameOf(code) + ")";
  // Reading clears the message, and the next call may overwrite it: copied at once.
  const char* recent = api.aclGetRecentErrMsg();
  if (recent != nullptr && recent[0] != '\0') text += std::string(": ") + recent;
  for (const Advice& advice : kAdvice) {
    if (advice.code == code) text += std::string("; ") + advice.text;
  }
  return text;
}

}  // namespace

void Check(const Api& api, const char* function, int code) {
  if (code != ACL_SUCCESS) throw std::runtime_error(Describe(api, function, code));
}

}  // namespace poolgrad::aclnn
