// SPDX-License-Identifier: Apache-2.0

// Device memory that one stream uses for one call after another.
#ifndef POOLGRAD_ACLNN_DEVICE_BUFFER_H_
#define POOLGRAD_ACLNN_DEVICE_BUFFER_H_

#include <cstddef>

#include "aclnn/backend.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// Memory of aclrtMalloc. Throws std::runtime_error.
MemoryHandle AllocateDeviceMemory(const Api& api, std::size_t bytes);

// A buffer that grows to the largest size that was reserved.
class DeviceBuffer {
 public:
  // stream: the stream whose work uses the memory. It may be created later, and must be destroyed before the buffer.
  DeviceBuffer(const Backend& backend, const StreamHandle& stream);

  // At least `bytes` bytes of unspecified content; null for 0. Invalidates the memory of earlier calls. Waits for the
  // stream, whose work may use that memory, if it must allocate more.
  void* Reserve(std::size_t bytes);

 private:
  const Api& api_;
  const StreamHandle& stream_;
  std::size_t capacity_ = 0;
  MemoryHandle memory_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_BUFFER_H_
