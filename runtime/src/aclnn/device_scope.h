// SPDX-License-Identifier: Apache-2.0

// The current device of a calling thread.
#ifndef POOLGRAD_ACLNN_DEVICE_SCOPE_H_
#define POOLGRAD_ACLNN_DEVICE_SCOPE_H_

#include <optional>

#include "aclnn/backend.h"

namespace poolgrad::aclnn {

// Makes the device current on the calling thread: without a current device, operators refuse their arguments and
// streams refuse work. The destructor restores the previous context, because other libraries on the thread rely on it
// (torch_npu caches the device that it has set). A thread without a previous device keeps this one, because acl cannot
// unset it.
class DeviceScope {
 public:
  // Throws std::runtime_error, and then changes nothing.
  explicit DeviceScope(const Backend& backend) : DeviceScope(backend.api(), backend.device()) {}
  DeviceScope(const Api& api, std::int32_t device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const Api& api_;
  aclrtContext previous_ = nullptr;  // null if the destructor restores nothing
};

// A DeviceScope for destructors, which nobody can repeat: if the device does not become current, it tries once more.
class ClosingScope {
 public:
  explicit ClosingScope(const Backend& backend) noexcept;

  // Otherwise nothing on the device may be called, and nothing on it is released.
  bool is_current() const { return scope_.has_value(); }

 private:
  std::optional<DeviceScope> scope_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_SCOPE_H_
