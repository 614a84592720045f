// Device memory for tensors.
#ifndef POOLGRAD_ACLNN_DEVICE_MEMORY_H_
#define POOLGRAD_ACLNN_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "aclnn/device_buffer.h"
#include "aclnn/stream.h"
#include "aclnn/stream_set.h"

namespace poolgrad::aclnn {

// Thread-safe. Memory must be freed before its source is destroyed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Memory for work on `given`, a stream of onnxruntime's, or null. Throws std::runtime_error if the device has no such
  // amount left.
  virtual void* Allocate(std::size_t bytes, aclrtStream given) = 0;

  // Work that was started before may still use the memory.
  virtual void Free(void* memory) = 0;
};

// Memory that one session uses. What is freed is given again at once where the order of a stream keeps its uses apart:
// for work on the stream that it was allocated for, and if that was none, as long as the session works on its own
// stream alone. Else the device is waited for. It holds at most twice of what was ever in use at the same time.
class SessionMemory : public DeviceMemory {
 public:
  explicit SessionMemory(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~SessionMemory() override;

  void* Allocate(std::size_t bytes, aclrtStream given) override;
  void Free(void* memory) override;

 private:
  struct Block {
    std::size_t bytes;
    MemoryHandle memory;
    aclrtStream given;  // the stream that it was allocated for
  };

  // By address where they are used, by size where they are idle: of one type, so that a block goes from one to the
  // other and nothing is allocated.
  using Blocks = std::multimap<std::uintptr_t, Block>;

  Blocks::node_type TakeIdle(std::size_t bytes, aclrtStream given);
  static Blocks::node_type NodeOf(Block block);
  Block AllocateBlock(std::size_t bytes);
  void ReleaseIdle();

  std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  Blocks used_;
  std::map<aclrtStream, Blocks> idle_;  // by the stream that they were allocated for
  bool is_unordered_ = false;           // whether given streams may still use idle blocks that are not for one of them
  std::size_t used_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // most that was in use
};

// Memory outside of any session, which every session may use: it is freed once all streams are done with it. The device
// is opened when the first is asked for, not when onnxruntime registers the provider with all devices there are.
class SharedMemory : public DeviceMemory {
 public:
  SharedMemory(BackendKind kind, std::int32_t device, std::shared_ptr<StreamSet> streams)
      : kind_(kind), device_(device), streams_(std::move(streams)) {}

  void* Allocate(std::size_t bytes, aclrtStream given) override;
  void Free(void* memory) override;

 private:
  const BackendKind kind_;
  const std::int32_t device_;
  std::shared_ptr<StreamSet> streams_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_MEMORY_H_
