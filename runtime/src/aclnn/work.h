// SPDX-License-Identifier: Apache-2.0

// Waits for work on a device, and memory that is freed only after a wait that succeeded.
#ifndef POOLGRAD_ACLNN_WORK_H_
#define POOLGRAD_ACLNN_WORK_H_

#include <cstddef>
#include <optional>

#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// Proof that the work ended that was started before the proof was made. Only a wait that succeeded makes one, so that
// nothing can free memory after a wait that failed. The functions below that return one throw std::runtime_error if the
// wait fails; they need a current device.
class WorkEnded {
 public:
  // For memory that no work was started on.
  static WorkEnded NothingStarted() { return {}; }

 private:
  WorkEnded() = default;
  friend WorkEnded WaitForStream(const Api& api, aclrtStream stream);
  friend WorkEnded WaitForEvent(const Api& api, aclrtEvent event);
  friend WorkEnded WaitForDevice(const Api& api);
  friend std::optional<WorkEnded> EndStream(const Api& api, StreamHandle& stream) noexcept;
};

WorkEnded WaitForStream(const Api& api, aclrtStream stream);
WorkEnded WaitForEvent(const Api& api, aclrtEvent event);
WorkEnded WaitForDevice(const Api& api);

// Waits for the stream and destroys it; its work also ends if it is destroyed after a failed wait. Returns nullopt, and
// leaves the stream as it is, if both fail. The handle must be the only one of the stream.
[[nodiscard]] std::optional<WorkEnded> EndStream(const Api& api, StreamHandle& stream) noexcept;

// Throws std::runtime_error.
StreamHandle CreateStream(const Backend& backend);

// Memory that work on a device uses. The destructor does not free it: that takes the proof that the work ended.
class WorkMemory {
 public:
  WorkMemory() = default;
  explicit WorkMemory(MemoryHandle memory) : memory_(std::move(memory)) {}
  ~WorkMemory() { Keep(); }
  WorkMemory(WorkMemory&&) = default;
  WorkMemory& operator=(WorkMemory&& other) noexcept {
    Keep();
    memory_ = std::move(other.memory_);
    return *this;
  }

  void* get() const { return memory_.get(); }
  void Free(WorkEnded) { memory_.reset(); }

  // Returns the memory, which is then the caller's.
  void* Keep() { return memory_.release(); }

 private:
  MemoryHandle memory_;
};

// Memory of aclrtMalloc. Throws std::runtime_error.
WorkMemory AllocateDeviceMemory(const Backend& backend, std::size_t bytes);

// Memory of aclrtMallocHost. Throws std::runtime_error.
WorkMemory AllocatePinnedMemory(const Backend& backend, std::size_t bytes);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_WORK_H_
