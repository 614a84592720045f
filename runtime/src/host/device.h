// The one device of this library, and who has it: process, context and calling thread.
// What the device is, a product of Ascend, is read from the environment variable ACLNN_HOST_SOC by aclInit.
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

// ACL_ERROR_RT_CONTEXT_NULL if the calling thread has no current device.
Status RequireCurrentDevice();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_DEVICE_H_
