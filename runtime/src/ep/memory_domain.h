// SPDX-License-Identifier: Apache-2.0

// The device memory that is registered with onnxruntime.
#ifndef POOLGRAD_EP_MEMORY_DOMAIN_H_
#define POOLGRAD_EP_MEMORY_DOMAIN_H_

#include <memory>
#include <vector>

#include "aclnn/backend.h"
#include "aclnn/stream_set.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

constexpr std::uint32_t kHuaweiVendorId = 0x19e5;  // PCI

// The memory of one device of a backend, described to onnxruntime when the provider is registered. A session on another
// backend keeps its tensors in host memory.
struct MemoryDomain {
  MemoryDomain(const EpContext& ort, aclnn::BackendKind kind, std::int32_t device);

  const aclnn::BackendKind kind;
  const std::int32_t device;
  std::shared_ptr<aclnn::StreamSet> streams;  // all that work on this memory
  OrtHandle<ort::OrtMemoryInfo> info;
};

// One for each device of one backend, by device number; empty if the devices share the host's memory.
using MemoryDomains = std::vector<std::unique_ptr<MemoryDomain>>;

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_MEMORY_DOMAIN_H_
