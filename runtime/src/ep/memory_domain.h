// The device memory that onnxruntime knows of.
#ifndef POOLGRAD_EP_MEMORY_DOMAIN_H_
#define POOLGRAD_EP_MEMORY_DOMAIN_H_

#include <memory>

#include "aclnn/stream_set.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

constexpr std::uint32_t kHuaweiVendorId = 0x19e5;  // PCI

// The memory of one backend's device, which is described to onnxruntime when the provider is registered: a session
// on another backend keeps its tensors in host memory.
struct MemoryDomain {
  // Throws std::runtime_error if there is no stream to copy on.
  MemoryDomain(const EpContext& ort, const aclnn::Backend& backend);

  const aclnn::Backend& backend;
  std::shared_ptr<aclnn::StreamSet> streams;  // of all sessions in this memory
  // For copies outside of sessions. It is here before a device is described: a registration that fails after that
  // leaves onnxruntime 1.24.1 with devices that are gone.
  std::shared_ptr<aclnn::Stream> copies;
  OrtHandle<ort::OrtMemoryInfo> info;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_MEMORY_DOMAIN_H_
