// SPDX-License-Identifier: Apache-2.0

#include "ep/allocator.h"

#include <string>
#include <utility>

namespace poolgrad::ep {

Allocator::Allocator(const EpContext& ort, const Logger& logger, const ort::OrtMemoryInfo* info,
                     std::unique_ptr<aclnn::DeviceMemory> memory)
    : ort::OrtAllocator{}, ort_(ort.api), logger_(logger), info_(info), memory_(std::move(memory)) {
  version = ort.version;
  Alloc = AllocImpl;
  AllocOnStream = AllocOnStreamImpl;
  Free = FreeImpl;
  Info = InfoImpl;
}

template <typename Describe>
void Allocator::LogException(Describe&& describe) const noexcept {
  try {
    logger_.Error(describe() + ": " + MessageOfException());
  } catch (...) {
    // No memory for the message.
  }
}

void* Allocator::AllocImpl(ort::OrtAllocator* self, std::size_t size) noexcept {
  return static_cast<Allocator*>(self)->Allocate(size, nullptr);
}

void* Allocator::AllocOnStreamImpl(ort::OrtAllocator* self, std::size_t size, ort::OrtSyncStream* stream) noexcept {
  Allocator& allocator = *static_cast<Allocator*>(self);
  return allocator.Allocate(size, stream == nullptr ? nullptr : allocator.ort_.SyncStream_GetHandle(stream));
}

void* Allocator::Allocate(std::size_t size, aclrtStream stream) noexcept {
  if (size == 0) return nullptr;
  try {
    return memory_->Allocate(size, stream);
  } catch (...) {
    LogException([size] { return "no device memory for a tensor of " + std::to_string(size) + " bytes"; });
    return nullptr;
  }
}

void Allocator::FreeImpl(ort::OrtAllocator* self, void* memory) noexcept {
  Allocator& allocator = *static_cast<Allocator*>(self);
  if (memory == nullptr) return;
  try {
    allocator.memory_->Free(memory);
  } catch (...) {
    allocator.LogException([] { return std::string("device memory was not freed"); });
  }
}

const ort::OrtMemoryInfo* Allocator::InfoImpl(const ort::OrtAllocator* self) noexcept {
  return static_cast<const Allocator*>(self)->info_;
}

}  // namespace poolgrad::ep
