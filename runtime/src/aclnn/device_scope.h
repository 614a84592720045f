// The device of a backend on threads that belong to somebody else.
#ifndef POOLGRAD_ACLNN_DEVICE_SCOPE_H_
#define POOLGRAD_ACLNN_DEVICE_SCOPE_H_

#include "aclnn/backend.h"

namespace poolgrad::aclnn {

// While it lives, the device is current on the calling thread: without it every operator refuses its arguments, and a
// stream its work. Then the context from before is current again: the thread's other libraries rely on it (torch_npu
// remembers which device it has set). A thread that had no device keeps this one, because acl cannot take it away.
class DeviceScope {
 public:
  // Throws std::runtime_error, with nothing changed.
  explicit DeviceScope(const Backend& backend) : DeviceScope(backend.api(), backend.device()) {}
  DeviceScope(const Api& api, std::int32_t device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const Api& api_;
  aclrtContext previous_ = nullptr;  // null where it stays as it is
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_SCOPE_H_
