// The execution provider of one session: claims the nodes that its backend can run.
#ifndef POOLGRAD_EP_PROVIDER_H_
#define POOLGRAD_EP_PROVIDER_H_

#include "ep/logger.h"
#include "ep/registry.h"

namespace poolgrad::ep {

class Provider : public ort::OrtEp {
 public:
  Provider(const EpContext& ort, const aclnn::Backend& backend, bool deterministic, const Logger& logger);

 private:
  static const char* GetNameImpl(const ort::OrtEp* self) noexcept;
  static ort::OrtStatus* GetCapabilityImpl(ort::OrtEp* self, const ort::OrtGraph* graph,
                                           ort::OrtEpGraphSupportInfo* support) noexcept;
  static ort::OrtStatus* GetKernelRegistryImpl(ort::OrtEp* self, const ort::OrtKernelRegistry** out) noexcept;

  void CheckNode(const DialectOp& op, const Attributes& attributes, const ort::OrtNode* node);
  void RequireFunction(const DialectOp& op, const Route& route);
  void Consider(const ort::OrtNode* node, ort::OrtEpGraphSupportInfo* support);

  EpContext ort_;
  const aclnn::Backend& backend_;
  Logger logger_;
  KernelRegistry registry_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_PROVIDER_H_
