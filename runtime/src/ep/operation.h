// What a dialect node does in one Run: checks its arguments and has aclnn compute it.
#ifndef POOLGRAD_EP_OPERATION_H_
#define POOLGRAD_EP_OPERATION_H_

#include <memory>
#include <string>

#include "aclnn/plan_cache.h"
#include "ep/attributes.h"
#include "ep/index_trust.h"
#include "ep/legality.h"
#include "ep/ort_context.h"
#include "ep/placement.h"

namespace poolgrad::ep {

class Operation {
 public:
  // Throws InvalidArgument, with the node's name, if the attributes are not what the operator needs.
  Operation(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
            const ort::OrtKernelInfo* info, const IndexTrust& trust);

  // Throws InvalidArgument if the node cannot run, as far as onnxruntime knows its arguments.
  void CheckArguments(const ort::OrtKernelInfo* info) const;

  const std::string& label() const { return label_; }

  // A failure becomes a status that names the node.
  ort::OrtStatus* Run(ort::OrtKernelContext* context) noexcept;

 private:
  void RunForward(ort::OrtKernelContext* context);
  void RunBackward(ort::OrtKernelContext* context);
  aclrtStream StreamOf(const ort::OrtKernelContext* context) const;

  OrtContext ort_;
  std::shared_ptr<Placement> placement_;
  const DialectOp& op_;
  std::string label_;
  Attributes attributes_;
  bool trusts_indices_;
  aclnn::PlanCache plans_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPERATION_H_
