// What a dialect node does in one Run: checks its arguments and has aclnn compute it.
#ifndef POOLGRAD_EP_OPERATION_H_
#define POOLGRAD_EP_OPERATION_H_

#include <memory>
#include <string>

#include "aclnn/plan_cache.h"
#include "aclnn/stream_pool.h"
#include "ep/attributes.h"
#include "ep/legality.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// What the operations of a session share. They hold it by shared_ptr: onnxruntime need not release kernels
// before the provider.
struct Device {
  Device(const aclnn::Backend& opened, bool deterministic)
      : backend(opened), deterministic(deterministic), streams(opened) {}

  const aclnn::Backend& backend;
  const bool deterministic;
  aclnn::StreamPool streams;
};

class Operation {
 public:
  // Throws InvalidArgument if the attributes are not what the operator needs.
  Operation(const OrtContext& ort, std::shared_ptr<Device> device, const DialectOp& op, const ort::OrtKernelInfo* info);

  // A failure becomes a status that names the node.
  ort::OrtStatus* Run(ort::OrtKernelContext* context) noexcept;

 private:
  void RunForward(ort::OrtKernelContext* context);
  void RunBackward(ort::OrtKernelContext* context);

  OrtContext ort_;
  std::shared_ptr<Device> device_;
  const DialectOp& op_;
  std::string label_;
  Attributes attributes_;
  aclnn::PlanCache plans_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPERATION_H_
