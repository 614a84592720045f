// Device memory that one stream uses for one call after another.
#ifndef POOLGRAD_ACLNN_DEVICE_BUFFER_H_
#define POOLGRAD_ACLNN_DEVICE_BUFFER_H_

#include <cstddef>

#include "aclnn/backend.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// Memory of aclrtMalloc. Throws std::runtime_error.
MemoryHandle AllocateDeviceMemory(const Api& api, std::size_t bytes);

// Grows to the largest size asked of it.
class DeviceBuffer {
 public:
  // stream: the one whose work uses the memory; it may be created later, and must be destroyed before.
  DeviceBuffer(const Backend& backend, const StreamHandle& stream);

  // At least so many bytes of unspecified content; null for 0. What it gave before is used by earlier work of the
  // stream alone: where it has to be replaced, the stream is waited for.
  void* Reserve(std::size_t bytes);

 private:
  const Api& api_;
  const StreamHandle& stream_;
  std::size_t capacity_ = 0;
  MemoryHandle memory_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_BUFFER_H_
