// Copies between the host's pageable memory and a device, in the order of a stream.
#ifndef POOLGRAD_ACLNN_PINNED_COPIER_H_
#define POOLGRAD_ACLNN_PINNED_COPIER_H_

#include <array>
#include <cstddef>
#include <functional>

#include "aclnn/backend.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// Works through two chunks of pinned memory: the device copies one while the host fills or empties the other.
// Used by one thread at a time. All functions throw std::runtime_error.
class PinnedCopier {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{2} << 20;

  explicit PinnedCopier(const Backend& backend);

  // Returns when `from` has been read; `to` is written in the order of the stream.
  void CopyToDevice(void* to, const void* from, std::size_t bytes, aclrtStream stream);

  // Returns when `to` is written, after the work that the stream had before.
  void CopyToHost(void* to, const void* from, std::size_t bytes, aclrtStream stream);

  // Gives the bytes at `from`, as the stream's work before leaves them, to `consume` part by part, in order; all
  // parts but the last have kChunkBytes.
  using Consumer = std::function<void(const void* part, std::size_t offset, std::size_t bytes)>;
  void Read(const void* from, std::size_t bytes, aclrtStream stream, const Consumer& consume);

 private:
  // Pinned memory, and the event behind the last copy from or to it.
  struct Chunk {
    explicit Chunk(const Api& api);
    ~Chunk();  // waits for the copy

    void Start(void* to, const void* from, std::size_t bytes, aclrtMemcpyKind kind, aclrtStream stream);
    void Wait();

    const Api& api;
    MemoryHandle memory;
    EventHandle event;
    bool is_copying = false;
  };

  Chunk& ChunkAt(std::size_t offset) { return chunks_[offset / kChunkBytes % chunks_.size()]; }

  std::array<Chunk, 2> chunks_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PINNED_COPIER_H_
