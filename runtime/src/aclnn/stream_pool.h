// Streams for calls on host memory, each with the device memory that a call needs, kept from one call to the next.
#ifndef POOLGRAD_ACLNN_STREAM_POOL_H_
#define POOLGRAD_ACLNN_STREAM_POOL_H_

#include <array>
#include <optional>

#include "aclnn/backend.h"
#include "aclnn/device_buffer.h"
#include "aclnn/device_scope.h"
#include "aclnn/idle_pool.h"
#include "aclnn/pinned_copier.h"

namespace poolgrad::aclnn {

// One stream and its buffers, used by one call at a time. Destroyed in reverse order: nothing copies any more, the
// stream has done its work, then the memory that it used goes.
struct StreamResources {
  explicit StreamResources(const Backend& backend);

  DeviceBuffer workspace;
  std::array<DeviceBuffer, 4> operands;  // as many as a call has, where they must be staged
  StreamHandle stream;
  std::optional<PinnedCopier> copier;  // where operands must be staged
};

// Hands out stream resources to the threads that call at the same time. Thread-safe.
class StreamPool {
 public:
  explicit StreamPool(const Backend& backend) : backend_(backend), resources_(backend) {}
  ~StreamPool();

  // Calls use(StreamResources&) on the calling thread. If it throws, the resources are dropped: the state
  // of their stream is unknown.
  template <typename Use>
  void With(Use&& use) {
    const DeviceScope scope(backend_);
    resources_.With(use);
  }

 private:
  const Backend& backend_;
  IdlePool<StreamResources> resources_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STREAM_POOL_H_
