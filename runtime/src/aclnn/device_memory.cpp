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
  try {
    ReleaseIdle();
  } catch (...) {
    // The stream is in error and no longer uses the memory.
  }
}

void* SessionMemory::Allocate(std::size_t bytes, aclrtStream given) {
  const std::size_t block_bytes = BlockBytes(bytes);
  if (given != nullptr) stream_->ExpectGivenStreams();
  const std::lock_guard<std::mutex> lock(mutex_);
  Blocks::node_type block = TakeIdle(block_bytes, given);
  if (block.empty()) block = NodeOf(AllocateBlock(block_bytes));
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

SessionMemory::Blocks::node_type SessionMemory::NodeOf(Block block) {
  Blocks blocks;
  blocks.emplace(0, std::move(block));
  return blocks.extract(blocks.begin());
}

SessionMemory::Block SessionMemory::AllocateBlock(std::size_t bytes) {
  const std::size_t peak = std::max(peak_bytes_, used_bytes_ + bytes);
  if (used_bytes_ + idle_bytes_ + bytes > 2 * peak) ReleaseIdle();
  const Backend& backend = stream_->backend();
  const DeviceScope scope(backend);
  try {
    return {bytes, AllocateDeviceMemory(backend.api(), bytes), nullptr};
  } catch (const std::exception&) {
    if (idle_bytes_ == 0) throw;
  }
  ReleaseIdle();
  return {bytes, AllocateDeviceMemory(backend.api(), bytes), nullptr};
}

void SessionMemory::ReleaseIdle() {
  if (idle_bytes_ == 0) return;
  const DeviceScope scope(stream_->backend());
  if (stream_->works_on_given_streams()) {
    stream_->SynchronizeDevice();
  } else {
    stream_->Synchronize();
  }
  idle_.clear();
  idle_bytes_ = 0;
}

void* SharedMemory::Allocate(std::size_t bytes, aclrtStream) {
  const Backend& backend = Backend::Open(kind_, device_);
  const DeviceScope scope(backend);
  return AllocateDeviceMemory(backend.api(), bytes).release();
}

void SharedMemory::Free(void* memory) {
  streams_->Synchronize();
  const Backend& backend = Backend::Open(kind_, device_);
  const DeviceScope scope(backend);
  Tolerate(backend.api(), backend.api().aclrtFree(memory));
}

}  // namespace poolgrad::aclnn
