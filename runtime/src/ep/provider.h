// SPDX-License-Identifier: Apache-2.0

// The execution provider of one session. Claims the nodes that its backend can run.
#ifndef POOLGRAD_EP_PROVIDER_H_
#define POOLGRAD_EP_PROVIDER_H_

#include <memory>
#include <optional>

#include "ep/logger.h"
#include "ep/memory_domain.h"
#include "ep/options.h"
#include "ep/registry.h"

namespace poolgrad::ep {

class Provider : public ort::OrtEp {
 public:
  // domain: the device memory that holds the session's tensors, or null where they are in host memory.
  Provider(const EpContext& ort, const aclnn::Backend& backend, const MemoryDomain* domain, const Options& options,
           const Logger& session_logger, const Logger& process_logger);

 private:
  static const char* GetNameImpl(const ort::OrtEp* self) noexcept;
  static ort::OrtStatus* GetCapabilityImpl(ort::OrtEp* self, const ort::OrtGraph* graph,
                                           ort::OrtEpGraphSupportInfo* support) noexcept;
  static ort::OrtStatus* GetKernelRegistryImpl(ort::OrtEp* self, const ort::OrtKernelRegistry** out) noexcept;
  static ort::OrtStatus* OnRunStartImpl(ort::OrtEp* self, const ort::OrtRunOptions* options) noexcept;
  static ort::OrtStatus* OnRunEndImpl(ort::OrtEp* self, const ort::OrtRunOptions* options, bool synchronize) noexcept;
  static ort::OrtStatus* CreateAllocatorImpl(ort::OrtEp* self, const ort::OrtMemoryInfo* info,
                                             ort::OrtAllocator** out) noexcept;

  std::optional<Claim> Consider(const ort::OrtNode* node, ort::OrtEpGraphSupportInfo* support);

  EpContext ort_;
  const aclnn::Backend& backend_;
  const MemoryDomain* domain_;
  std::shared_ptr<aclnn::Stream> stream_;  // null without a domain
  Logger session_logger_;
  Logger process_logger_;
  bool deterministic_;
  IndexTrust trust_;
  KernelRegistry registry_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_PROVIDER_H_
