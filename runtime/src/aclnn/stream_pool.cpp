// SPDX-License-Identifier: Apache-2.0

#include "aclnn/stream_pool.h"

#include "aclnn/stream.h"

namespace poolgrad::aclnn {

StreamResources::StreamResources(const Backend& backend)
    : workspace(backend, stream),
      operands{DeviceBuffer(backend, stream), DeviceBuffer(backend, stream), DeviceBuffer(backend, stream),
               DeviceBuffer(backend, stream)},
      stream(CreateStream(backend.api())) {}

StreamPool::~StreamPool() {
  try {
    const DeviceScope scope(backend_);
    resources_.Clear();
  } catch (...) {
    // The device cannot be used, and a destructor cannot report it. The members are released without a current device.
  }
}

}  // namespace poolgrad::aclnn
