// SPDX-License-Identifier: Apache-2.0

#include "aclnn/device_scope.h"

#include "aclnn/failure.h"

namespace poolgrad::aclnn {

DeviceScope::DeviceScope(const Api& api, std::int32_t device) : api_(api) {
  // aclrtSetDevice counts its calls, so it is called only if another device, or none, is current.
  std::int32_t current = -1;
  const int code = api.aclrtGetDevice(&current);
  Tolerate(api, code);
  const bool has_device = code == ACL_SUCCESS;
  if (has_device && current == device) return;
  aclrtContext previous = nullptr;
  if (has_device) Check(api, "aclrtGetCurrentContext", api.aclrtGetCurrentContext(&previous));
  Check(api, "aclrtSetDevice", api.aclrtSetDevice(device));
  previous_ = previous;
}

DeviceScope::~DeviceScope() {
  if (previous_ != nullptr) Tolerate(api_, api_.aclrtSetCurrentContext(previous_));
}

ClosingScope::ClosingScope(const Backend& backend) noexcept {
  constexpr int kAttempts = 2;
  for (int attempt = 0; attempt < kAttempts && !is_current(); ++attempt) {
    try {
      scope_.emplace(backend);
    } catch (...) {
      // The next attempt, or is_current, tells.
    }
  }
}

}  // namespace poolgrad::aclnn
