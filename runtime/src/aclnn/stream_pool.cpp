#include "aclnn/stream_pool.h"

#include <exception>

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
  } catch (const std::exception&) {
    // The device is gone; releasing what it held can at worst fail too, and there is nobody to tell.
  }
}

}  // namespace poolgrad::aclnn
