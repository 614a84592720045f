// SPDX-License-Identifier: Apache-2.0

#include "aclnn/device_buffer.h"

#include "aclnn/failure.h"

namespace poolgrad::aclnn {

MemoryHandle AllocateDeviceMemory(const Api& api, std::size_t bytes) {
  void* memory = nullptr;
  Check(api, "aclrtMalloc", api.aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return MemoryHandle(memory, Released(api, api.aclrtFree));
}

DeviceBuffer::DeviceBuffer(const Backend& backend, const StreamHandle& stream)
    : api_(backend.api()), stream_(stream), memory_(nullptr, Released(api_, api_.aclrtFree)) {}

void* DeviceBuffer::Reserve(std::size_t bytes) {
  if (bytes == 0) return nullptr;  // aclrtMalloc refuses 0 bytes, and operators accept null for an empty workspace
  if (bytes > capacity_) {
    if (memory_ != nullptr) Check(api_, "aclrtSynchronizeStream", api_.aclrtSynchronizeStream(stream_.get()));
    memory_.reset();
    capacity_ = 0;
    memory_ = AllocateDeviceMemory(api_, bytes);
    capacity_ = bytes;
  }
  return memory_.get();
}

}  // namespace poolgrad::aclnn
