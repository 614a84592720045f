// SPDX-License-Identifier: Apache-2.0

// Device memory that one stream uses for one call after another.
#ifndef POOLGRAD_ACLNN_DEVICE_BUFFER_H_
#define POOLGRAD_ACLNN_DEVICE_BUFFER_H_

#include <cstddef>

#include "aclnn/work.h"

namespace poolgrad::aclnn {

// A buffer that grows to the largest size that was reserved.
class DeviceBuffer {
 public:
  // stream: the stream whose work uses the memory. It may be created later, and must live until the last Reserve.
  DeviceBuffer(const Backend& backend, const StreamHandle& stream);

  // At least `bytes` bytes of unspecified content; null for 0. Invalidates the memory of earlier calls. Waits for the
  // stream, whose work may use that memory, if it must allocate more.
  void* Reserve(std::size_t bytes);

  // Without it the memory is kept when the buffer is destroyed.
  void Free(WorkEnded ended);

 private:
  const Backend& backend_;
  const StreamHandle& stream_;
  std::size_t capacity_ = 0;
  WorkMemory memory_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_BUFFER_H_
