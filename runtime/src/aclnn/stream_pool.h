// SPDX-License-Identifier: Apache-2.0

// A pool of streams for calls on host memory, each with the device memory that a call needs.
#ifndef POOLGRAD_ACLNN_STREAM_POOL_H_
#define POOLGRAD_ACLNN_STREAM_POOL_H_

#include <array>
#include <optional>

#include "aclnn/backend.h"
#include "aclnn/call.h"
#include "aclnn/device_buffer.h"
#include "aclnn/device_scope.h"
#include "aclnn/idle_pool.h"
#include "aclnn/pinned_copier.h"

namespace poolgrad::aclnn {

// One stream and its buffers, used by one call at a time.
struct StreamResources {
  explicit StreamResources(const Backend& backend);
  ~StreamResources() { static_cast<void>(Finish()); }  // keeps the memory if the work of the stream did not end

  // Ends the stream, and frees its memory. Returns false if the stream cannot be ended.
  [[nodiscard]] bool Finish() noexcept;

  const Backend& backend;
  DeviceBuffer workspace;
  std::array<DeviceBuffer, kMaxOperands> operands;  // used if the operands must be staged
  StreamHandle stream;
  std::optional<PinnedCopier> copier;  // likewise
};

// Gives each concurrent call stream resources of its own. Thread-safe.
class StreamPool {
 public:
  explicit StreamPool(const Backend& backend) : backend_(backend), resources_(backend) {}
  ~StreamPool();

  // Calls use(StreamResources&) on the calling thread. If it throws, the resources are not used again:
  // the state of their stream is unknown.
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
