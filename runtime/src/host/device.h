// The devices of this library, and who has them: process, context and calling thread.
// What they are, a product of Ascend, and how many there are is read from the environment variables ACLNN_HOST_SOC and
// ACLNN_HOST_DEVICES by aclInit.
#ifndef POOLGRAD_HOST_DEVICE_H_
#define POOLGRAD_HOST_DEVICE_H_

#include <optional>

#include "host/soc.h"
#include "host/status.h"

namespace poolgrad::host {

// What phase 1 of an operator looks at.
struct DeviceState {
  std::optional<Product> product;  // none if the calling thread has no current device
  bool deterministic = false;
};
DeviceState SampleDevice();

constexpr int32_t kNoDevice = -1;

// The device that is current on the calling thread, or kNoDevice where none was yet. Its context may have ended.
int32_t CurrentDevice();

// ACL_ERROR_RT_CONTEXT_NULL if the calling thread has no current device.
Status RequireCurrentDevice();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_DEVICE_H_
