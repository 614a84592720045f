// SPDX-License-Identifier: Apache-2.0

// Copies between the host's pageable memory and a device, in the order of a stream.
#ifndef POOLGRAD_ACLNN_PINNED_COPIER_H_
#define POOLGRAD_ACLNN_PINNED_COPIER_H_

#include <array>
#include <cstddef>
#include <functional>

#include "aclnn/backend.h"
#include "aclnn/work.h"

namespace poolgrad::aclnn {

// Copies through two chunks of pinned memory: the device copies one while the host fills or empties the other. One
// thread at a time. All functions throw std::runtime_error.
class PinnedCopier {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{2} << 20;

  explicit PinnedCopier(const Backend& backend);

  // Returns when `from` has been read; `to` is written in the order of the stream.
  void CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream stream);

  // Returns when `to` is written. The copy runs after the earlier work of the stream.
  void CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream stream);

  // Calls `consume` with the bytes at `from`, part by part and in order, after the earlier work of the stream. All
  // parts but the last have kChunkBytes.
  using Consumer = std::function<void(const void* part, std::size_t offset, std::size_t bytes)>;
  void Read(const void* from, std::size_t bytes, aclrtStream stream, const Consumer& consume);

  // Waits for the copies. Returns whether they ended: otherwise the destructor keeps the pinned memory.
  [[nodiscard]] bool Finish() noexcept;
  void Finish(WorkEnded ended);

 private:
  enum class Copy { kNone, kRecorded, kUnrecorded };  // kUnrecorded: no event tells when it ends

  // Pinned memory, and an event that is recorded after each copy from or to it.
  struct Chunk {
    explicit Chunk(const Backend& backend);
    ~Chunk();  // waits for the copy

    void Start(void* to, const void* from, std::size_t bytes, aclrtMemcpyKind kind, aclrtStream stream);
    void Wait();
    bool Finish() noexcept;

    const Backend& backend;
    EventHandle event;
    WorkMemory memory;
    WorkEnded ended = WorkEnded::NothingStarted();  // of the last copy that was waited for
    Copy copy = Copy::kNone;                        // since then
  };

  Chunk& ChunkAt(std::size_t offset) { return chunks_[offset / kChunkBytes % chunks_.size()]; }

  std::array<Chunk, 2> chunks_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PINNED_COPIER_H_
