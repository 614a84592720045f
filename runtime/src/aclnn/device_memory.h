// SPDX-License-Identifier: Apache-2.0

// Device memory for tensors.
#ifndef POOLGRAD_ACLNN_DEVICE_MEMORY_H_
#define POOLGRAD_ACLNN_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/device_buffer.h"
#include "aclnn/stream.h"
#include "aclnn/stream_set.h"

namespace poolgrad::aclnn {

// Thread-safe. Memory must be freed before its source is destroyed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Memory for work on `given`, a stream of onnxruntime's, or null. Throws std::runtime_error if the device has not
  // enough memory.
  virtual void* Allocate(std::size_t bytes, aclrtStream given) = 0;

  // Work that was started before the call may still use the memory. Throws std::runtime_error if the memory is kept.
  virtual void Free(void* memory) = 0;
};

// Memory that one session uses. A freed block is reused for work on the stream that it was allocated for. No wait is
// needed, because the stream orders the uses. Without a given stream, this holds as long as the session works on its
// own stream only; otherwise reuse waits for the device. The class holds at most twice the memory that was in use at
// once.
class SessionMemory : public DeviceMemory {
 public:
  explicit SessionMemory(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~SessionMemory() override;

  void* Allocate(std::size_t bytes, aclrtStream given) override;
  void Free(void* memory) override;

 private:
  struct Block {
    std::size_t bytes = 0;
    WorkMemory memory;
    aclrtStream given = nullptr;  // the stream that the block was allocated for
  };

  // Used blocks by address, idle blocks by size. The maps have one type, so that a node moves between them without an
  // allocation.
  using Blocks = std::multimap<std::uintptr_t, Block>;

  Blocks::node_type TakeIdle(std::size_t bytes, aclrtStream given);
  static Blocks::node_type EmptyNode();
  WorkMemory AllocateMemory(std::size_t bytes);
  void ReleaseIdle();

  std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  Blocks used_;
  std::map<aclrtStream, Blocks> idle_;  // by the stream that the blocks were allocated for
  bool is_unordered_ = false;           // whether given streams may still use the idle blocks of idle_[nullptr]
  std::size_t used_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // the largest value of used_bytes_
};

// Memory outside of any session, which every session may use: Free waits for all streams. If work may still run after
// that, it keeps the memory, frees it with the next memory for which the wait succeeds, and throws std::runtime_error.
// The device is opened by the first call of Allocate, not when onnxruntime registers the provider with all devices.
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
  std::mutex mutex_;
  std::vector<WorkMemory> kept_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DEVICE_MEMORY_H_
