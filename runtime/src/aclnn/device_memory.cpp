// SPDX-License-Identifier: Apache-2.0

#include "aclnn/device_memory.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "aclnn/device_scope.h"
#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

constexpr std::size_t kSmallestStep = 512;
constexpr std::size_t kLargest = std::size_t{1} << 48;  // more than any device has

// Rounds a size up by less than an eighth, or to a multiple of kSmallestStep, so that tensors of similar sizes fit into
// the same blocks.
std::size_t BlockBytes(std::size_t bytes) {
  if (bytes > kLargest) return bytes;
  std::size_t step = kSmallestStep;
  while (step * 8 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

std::uintptr_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

SessionMemory::~SessionMemory() {
  const ClosingScope scope(stream_->backend());
  if (!scope.is_current()) return;
  try {
    ReleaseIdle();
  } catch (...) {
    // Work may still use the idle memory, which the blocks keep.
  }
}

void* SessionMemory::Allocate(std::size_t bytes, aclrtStream given) {
  const std::size_t block_bytes = BlockBytes(bytes);
  if (given != nullptr) stream_->ExpectGivenStreams();
  const std::lock_guard<std::mutex> lock(mutex_);
  Blocks::node_type block = TakeIdle(block_bytes, given);
  if (block.empty()) {
    block = EmptyNode();
    block.mapped().memory = AllocateMemory(block_bytes);
    block.mapped().bytes = block_bytes;
  }
  block.mapped().given = given;
  void* memory = block.mapped().memory.get();
  used_bytes_ += block.mapped().bytes;
  block.key() = AddressOf(memory);
  used_.insert(std::move(block));
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return memory;
}

void SessionMemory::Free(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Blocks::node_type block = used_.extract(AddressOf(memory));
  if (block.empty()) return;
  const std::size_t bytes = block.mapped().bytes;
  used_bytes_ -= bytes;
  idle_bytes_ += bytes;
  block.key() = bytes;
  const aclrtStream given = block.mapped().given;
  if (given == nullptr && stream_->works_on_given_streams()) is_unordered_ = true;
  idle_[given].insert(std::move(block));
}

// An idle block of at least `bytes` and at most twice as many, or an empty node.
SessionMemory::Blocks::node_type SessionMemory::TakeIdle(std::size_t bytes, aclrtStream given) {
  const auto idle = idle_.find(given);
  if (idle == idle_.end()) return {};
  const auto found = idle->second.lower_bound(bytes);
  if (found == idle->second.end() || found->first / 2 > bytes) return {};
  if (given == nullptr && is_unordered_) {
    stream_->SynchronizeDevice();
    is_unordered_ = false;
  }
  idle_bytes_ -= found->second.bytes;
  return idle->second.extract(found);
}

SessionMemory::Blocks::node_type SessionMemory::EmptyNode() {
  Blocks blocks;
  blocks.emplace(0, Block());
  return blocks.extract(blocks.begin());
}

WorkMemory SessionMemory::AllocateMemory(std::size_t bytes) {
  const std::size_t peak = std::max(peak_bytes_, used_bytes_ + bytes);
  if (used_bytes_ + idle_bytes_ + bytes > 2 * peak) ReleaseIdle();
  const Backend& backend = stream_->backend();
  const DeviceScope scope(backend);
  try {
    return AllocateDeviceMemory(backend, bytes);
  } catch (const std::exception&) {
    if (idle_bytes_ == 0) throw;
  }
  ReleaseIdle();
  return AllocateDeviceMemory(backend, bytes);
}

void SessionMemory::ReleaseIdle() {
  if (idle_bytes_ == 0) return;
  const DeviceScope scope(stream_->backend());
  const WorkEnded ended = stream_->works_on_given_streams() ? stream_->SettleDevice() : stream_->Settle();
  for (auto& [given, blocks] : idle_) {
    for (auto& [size, block] : blocks) block.memory.Free(ended);
  }
  idle_.clear();
  idle_bytes_ = 0;
}

void* SharedMemory::Allocate(std::size_t bytes, aclrtStream) {
  const Backend& backend = Backend::Open(kind_, device_);
  const DeviceScope scope(backend);
  return AllocateDeviceMemory(backend, bytes).Keep();
}

void SharedMemory::Free(void* memory) {
  const Backend& backend = Backend::Open(kind_, device_);
  WorkMemory last(MemoryHandle(memory, Released(backend, backend.api().aclrtFree)));
  std::vector<WorkMemory> freed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back(std::move(last));
    freed.swap(kept_);
  }
  try {
    const DeviceScope scope(backend);
    const WorkEnded ended = streams_->Synchronize();
    for (WorkMemory& block : freed) block.Free(ended);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (WorkMemory& block : freed) kept_.push_back(std::move(block));
    throw;
  }
}

}  // namespace poolgrad::aclnn
