// SPDX-License-Identifier: Apache-2.0

#include "ep/legality.h"

#include "ep/pooling.h"

namespace poolgrad::ep {

bool IsValueType(ort::ONNXTensorElementDataType type) {
  return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

bool IsInt64(ort::ONNXTensorElementDataType type) { return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64; }

const Route& RequireRoute(const DialectOp& op, aclnn::Product product, const Shape& x,
                          ort::ONNXTensorElementDataType argmax) {
  const Route* route = FindRoute(op, product, x.rank, IsInt64(argmax));
  Require(route != nullptr, [&] {
    return "this product has no operator for x of rank " + std::to_string(x.rank) + " with " +
           (IsInt64(argmax) ? "int64" : "int32") + " argmax";
  });
  return *route;
}

namespace {

// The operands of a gradient as the model has them, with the sizes of grad and argmax that a Run will have.
Arguments DeclaredOperands(const DialectOp& op, const Attributes& attributes, const std::vector<Argument>& inputs) {
  Arguments operands{inputs[0], inputs[1], inputs[2]};
  if (op.axes == 0) return operands;
  for (Argument* pooled : {&operands.grad, &operands.argmax}) {
    pooled->shape = WithoutDroppedWindows(pooled->shape, operands.x.shape, attributes.window);
  }
  return operands;
}

}  // namespace

const Route& CheckNode(const DialectOp& op, const Attributes& attributes, const aclnn::Backend& backend,
                       bool deterministic, const std::vector<Argument>& inputs, const std::vector<Argument>& outputs) {
  const Route& route = op.direction == Direction::kBackward
                           ? CheckBackward(op, attributes, backend.product(), DeclaredOperands(op, attributes, inputs))
                           : CheckForward(op, attributes, backend.product(), inputs[0]);
  if (op.direction == Direction::kForward) {
    // onnxruntime infers argmax's type from the function body or the operator's schema, not from this attribute.
    Require(outputs[1].type == attributes.argmax_type,
            [&] { return std::string("argmax is not of the type that the attribute ") + op.index_type + " says"; });
  }
  const aclnn::Function& function = backend.api().function(route.entry);
  Require(function.found(), [&] { return std::string("no library of this CANN has ") + function.phase_2; });
  const std::string refusal = backend.probes().RefusalOf(backend, function, deterministic);
  Require(refusal.empty(),
          [&] { return std::string("this CANN does not run it on ") + NameOf(backend.product()) + ": " + refusal; });
  return route;
}

}  // namespace poolgrad::ep
