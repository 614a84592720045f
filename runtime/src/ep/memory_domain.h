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
  MemoryDomain(const EpContext& ort, const aclnn::Backend& backend);

  const aclnn::Backend& backend;
  std::shared_ptr<aclnn::StreamSet> streams;  // of all sessions in this memory
  OrtHandle<ort::OrtMemoryInfo> info;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_MEMORY_DOMAIN_H_
