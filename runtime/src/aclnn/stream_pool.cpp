#include "aclnn/stream_pool.h"

#include <exception>
#include <utility>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

StreamHandle CreateStream(const Api& api) {
  aclrtStream stream = nullptr;
  Check(api, "aclrtCreateStream", api.aclrtCreateStream(&stream));
  return StreamHandle(stream, {api.aclrtDestroyStream});
}

}  // namespace

DeviceBuffer::DeviceBuffer(const Backend& backend) : backend_(backend), memory_(nullptr, {backend.api().aclrtFree}) {}

void* DeviceBuffer::Reserve(std::size_t bytes) {
  if (bytes == 0) return nullptr;  // aclrtMalloc refuses 0 bytes, and operators take null for none
  if (bytes > capacity_) {
    memory_.reset();
    capacity_ = 0;
    void* memory = nullptr;
    const Api& api = backend_.api();
    Check(api, "aclrtMalloc", api.aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    memory_.reset(memory);
    capacity_ = bytes;
  }
  return memory_.get();
}

StreamResources::StreamResources(const Backend& backend)
    : workspace(backend),
      operands{DeviceBuffer(backend), DeviceBuffer(backend), DeviceBuffer(backend), DeviceBuffer(backend)},
      stream(CreateStream(backend.api())) {}

StreamPool::~StreamPool() {
  try {
    backend_.AttachThread();
  } catch (const std::exception&) {
    // The device is gone; releasing what it held can at worst fail too, and there is nobody to tell.
  }
}

std::unique_ptr<StreamResources> StreamPool::Take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<StreamResources> resources = std::move(idle_.back());
      idle_.pop_back();
      return resources;
    }
  }
  return std::make_unique<StreamResources>(backend_);
}

void StreamPool::Give(std::unique_ptr<StreamResources> resources) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(resources));
}

}  // namespace poolgrad::aclnn
