// SPDX-License-Identifier: Apache-2.0

// A dialect node's computation: checks the arguments of a Run and calls aclnn.
#ifndef POOLGRAD_EP_OPERATION_H_
#define POOLGRAD_EP_OPERATION_H_

#include <memory>
#include <optional>
#include <string>

#include "aclnn/executor_cache.h"
#include "ep/attributes.h"
#include "ep/index_trust.h"
#include "ep/legality.h"
#include "ep/operands.h"
#include "ep/ort_context.h"
#include "ep/placement.h"

namespace poolgrad::ep {

class Operation {
 public:
  // Throws InvalidArgument, with the node's name, if the attributes are not what the operator needs.
  Operation(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
            const ort::OrtKernelInfo* info, const IndexTrust& trust);

  // Throws InvalidArgument if the types and shapes that onnxruntime knows show that the node cannot run.
  void CheckArguments(const ort::OrtKernelInfo* info) const;

  const std::string& label() const { return label_; }

  // A failure becomes a status that names the node.
  ort::OrtStatus* Run(ort::OrtKernelContext* context) noexcept;

 private:
  void RunForward(ort::OrtKernelContext* context);
  void RunBackward(ort::OrtKernelContext* context);
  void RunFunction(const Route& route, const aclnn::Window& window, std::initializer_list<NamedTensor> tensors,
                   const ort::OrtKernelContext* context);
  std::optional<Tensor> InputOf(ort::OrtKernelContext* context, Part part) const;
  Shape ShapeOfX(ort::OrtKernelContext* context, const Shape& grad) const;  // of an operator without x
  aclrtStream StreamOf(const ort::OrtKernelContext* context) const;

  OrtContext ort_;
  std::shared_ptr<Placement> placement_;
  const DialectOp& op_;
  std::string label_;
  Attributes attributes_;
  bool trusts_indices_;
  aclnn::ExecutorCache executors_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPERATION_H_
