#include "aclnn/device_memory.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace poolgrad::aclnn {
namespace {

constexpr std::size_t kSmallestStep = 512;
constexpr std::size_t kLargest = std::size_t{1} << 48;  // no device has more

// Sizes are rounded up by less than an eighth, or to the smallest step, so that tensors of about the same size fit
// into each other's blocks.
std::size_t BlockBytes(std::size_t bytes) {
  if (bytes > kLargest) return bytes;
  std::size_t step = kSmallestStep;
  while (step * 8 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

SessionMemory::~SessionMemory() {
  try {
    ReleaseIdle();
  } catch (const std::exception&) {
    // The stream is in error and uses nothing any more.
  }
}

void* SessionMemory::Allocate(std::size_t bytes) {
  const std::size_t block_bytes = BlockBytes(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  void* memory = TakeIdle(block_bytes);
  if (memory == nullptr) {
    Block block = AllocateBlock(block_bytes);
    memory = block.memory.get();
    used_bytes_ += block.bytes;
    used_.emplace(memory, std::move(block));
  }
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return memory;
}

void SessionMemory::Free(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = used_.find(memory);
  if (found == used_.end()) return;
  const std::size_t bytes = found->second.bytes;
  used_bytes_ -= bytes;
  idle_bytes_ += bytes;
  idle_.emplace(bytes, std::move(found->second));
  used_.erase(found);
}

// A block that is not twice as large as it has to be, or null.
void* SessionMemory::TakeIdle(std::size_t bytes) {
  const auto found = idle_.lower_bound(bytes);
  if (found == idle_.end() || found->first / 2 > bytes) return nullptr;
  void* memory = found->second.memory.get();
  idle_bytes_ -= found->first;
  used_bytes_ += found->first;
  used_.emplace(memory, std::move(found->second));
  idle_.erase(found);
  return memory;
}

SessionMemory::Block SessionMemory::AllocateBlock(std::size_t bytes) {
  const std::size_t peak = std::max(peak_bytes_, used_bytes_ + bytes);
  if (used_bytes_ + idle_bytes_ + bytes > 2 * peak) ReleaseIdle();
  const Backend& backend = stream_->backend();
  backend.AttachThread();
  try {
    return {bytes, AllocateDeviceMemory(backend.api(), bytes)};
  } catch (const std::exception&) {
    if (idle_.empty()) throw;
  }
  ReleaseIdle();
  return {bytes, AllocateDeviceMemory(backend.api(), bytes)};
}

void SessionMemory::ReleaseIdle() {
  if (idle_.empty()) return;
  stream_->Synchronize();
  idle_.clear();
  idle_bytes_ = 0;
}

void* SharedMemory::Allocate(std::size_t bytes) {
  backend_.AttachThread();
  return AllocateDeviceMemory(backend_.api(), bytes).release();
}

void SharedMemory::Free(void* memory) {
  streams_->Synchronize();
  backend_.AttachThread();
  backend_.api().aclrtFree(memory);
}

}  // namespace poolgrad::aclnn
