// SPDX-License-Identifier: Apache-2.0

#include "aclnn/device_buffer.h"

namespace poolgrad::aclnn {

DeviceBuffer::DeviceBuffer(const Backend& backend, const StreamHandle& stream) : backend_(backend), stream_(stream) {}

void* DeviceBuffer::Reserve(std::size_t bytes) {
  if (bytes == 0) return nullptr;  // aclrtMalloc refuses 0 bytes, and operators accept null for an empty workspace
  if (bytes > capacity_) {
    if (memory_.get() != nullptr) Free(WaitForStream(backend_.api(), stream_.get()));
    memory_ = AllocateDeviceMemory(backend_, bytes);
    capacity_ = bytes;
  }
  return memory_.get();
}

void DeviceBuffer::Free(WorkEnded ended) {
  memory_.Free(ended);
  capacity_ = 0;
}

}  // namespace poolgrad::aclnn
