// SPDX-License-Identifier: Apache-2.0

// Device memory as an allocator of onnxruntime.
#ifndef POOLGRAD_EP_ALLOCATOR_H_
#define POOLGRAD_EP_ALLOCATOR_H_

#include <memory>

#include "aclnn/device_memory.h"
#include "ep/logger.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// An allocator may outlive its session, if a user keeps tensors; so the logger must not be the session's.
class Allocator : public ort::OrtAllocator {
 public:
  Allocator(const EpContext& ort, const Logger& logger, const ort::OrtMemoryInfo* info,
            std::unique_ptr<aclnn::DeviceMemory> memory);

 private:
  // Null if the allocation fails. The interface has no status, so the cause is logged.
  static void* AllocImpl(ort::OrtAllocator* self, std::size_t size) noexcept;
  static void* AllocOnStreamImpl(ort::OrtAllocator* self, std::size_t size, ort::OrtSyncStream* stream) noexcept;
  static void FreeImpl(ort::OrtAllocator* self, void* memory) noexcept;
  static const ort::OrtMemoryInfo* InfoImpl(const ort::OrtAllocator* self) noexcept;

  void* Allocate(std::size_t size, aclrtStream stream) noexcept;

  // Logs describe(), a text, and the message of the exception that is being handled.
  template <typename Describe>
  void LogException(Describe&& describe) const noexcept;

  const ort::OrtApi& ort_;
  Logger logger_;
  const ort::OrtMemoryInfo* info_;
  std::unique_ptr<aclnn::DeviceMemory> memory_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ALLOCATOR_H_
