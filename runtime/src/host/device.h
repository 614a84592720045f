// SPDX-License-Identifier: Apache-2.0

// The devices of this library, with the state of the process, the contexts and the calling thread. aclInit reads their
// Ascend product and their number from the environment variables ACLNN_HOST_SOC and ACLNN_HOST_DEVICES.
#ifndef POOLGRAD_HOST_DEVICE_H_
#define POOLGRAD_HOST_DEVICE_H_

#include <optional>

#include "host/soc.h"
#include "host/status.h"

namespace poolgrad::host {

// The state that phase 1 of an operator reads.
struct DeviceState {
  std::optional<Product> product;  // none if the calling thread has no current device
  bool deterministic = false;
};
DeviceState SampleDevice();

constexpr int32_t kNoDevice = -1;

// The current device of the calling thread, or kNoDevice if it never had one. Its context may have ended.
int32_t CurrentDevice();

// ACL_ERROR_RT_CONTEXT_NULL if the calling thread has no current device.
Status RequireCurrentDevice();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_DEVICE_H_
