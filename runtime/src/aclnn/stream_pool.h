// Streams with the device memory that a call needs, kept from one call to the next.
#ifndef POOLGRAD_ACLNN_STREAM_POOL_H_
#define POOLGRAD_ACLNN_STREAM_POOL_H_

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/backend.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// Device memory that grows to the largest size asked of it.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const Backend& backend);

  // At least so many bytes of unspecified content; null for 0. Valid until the next call. Not to be called
  // while the stream still works on what it gave before.
  void* Reserve(std::size_t bytes);

 private:
  const Backend& backend_;
  std::size_t capacity_ = 0;
  MemoryHandle memory_;
};

// One stream and its buffers, used by one call at a time. The stream is declared last, so that it is
// destroyed, which waits for its work, before the memory that the work uses.
struct StreamResources {
  explicit StreamResources(const Backend& backend);

  DeviceBuffer workspace;
  std::array<DeviceBuffer, 4> operands;  // as many as a call has, where they must be staged
  StreamHandle stream;
};

// Hands out stream resources to the threads that call at the same time. Thread-safe.
class StreamPool {
 public:
  explicit StreamPool(const Backend& backend) : backend_(backend) {}
  ~StreamPool();

  // Calls use(StreamResources&) on the calling thread. If it throws, the resources are dropped: the state
  // of their stream is unknown.
  template <typename Use>
  void With(Use&& use) {
    backend_.AttachThread();
    std::unique_ptr<StreamResources> resources = Take();
    use(*resources);
    Give(std::move(resources));
  }

 private:
  std::unique_ptr<StreamResources> Take();
  void Give(std::unique_ptr<StreamResources> resources);

  const Backend& backend_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamResources>> idle_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_POOL_H_
