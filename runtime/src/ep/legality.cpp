// SPDX-License-Identifier: Apache-2.0

#include "ep/legality.h"

#include <algorithm>
#include <iterator>

#include "ep/dialect_table.h"
#include "ep/pooling.h"

namespace poolgrad::ep {

bool IsValueType(ort::ONNXTensorElementDataType type) {
  return std::any_of(std::begin(kValueTypes), std::end(kValueTypes),
                     [&](const ElementType& value) { return value.onnx == type; });
}

bool IsInt64(ort::ONNXTensorElementDataType type) { return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64; }

aclDataType AclType(ort::ONNXTensorElementDataType type) {
  for (const ElementType& value : kValueTypes) {
    if (value.onnx == type) return value.acl;
  }
  for (const ElementType& index : kIndexTypes) {
    if (index.onnx == type) return index.acl;
  }
  return ACL_DT_UNDEFINED;
}

const Route& RequireRoute(const DialectOp& op, aclnn::Product product, const Shape& x,
                          ort::ONNXTensorElementDataType argmax) {
  const Route* route = FindRoute(op, product, x.rank, IsInt64(argmax));
  Require(route != nullptr, [&] {
    const bool has_argmax = ReadsArgmax(op) || op.direction == Direction::kForward;
    return "this product has no operator for x of rank " + std::to_string(x.rank) +
           (has_argmax ? std::string(" with ") + (IsInt64(argmax) ? "int64" : "int32") + " argmax" : "");
  });
  return *route;
}

namespace {

constexpr Shape kUnknownShape = {{-1, -1, -1, -1, -1}, Shape::kMaxRank};

// What is known of the shape of x where it is no input: the shape of the gradient, if that is declared, else the rank.
Shape DeclaredShape(const Attributes& attributes, const Argument& sizes, const Shape& y) {
  Require(sizes.type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "orig_input_shape is not int32");
  Shape shape = kUnknownShape;
  shape.rank = kFirstSpatialAxis + attributes.onnx.rank;
  const bool is_list = sizes.shape.rank == 0 || sizes.shape.rank == 1;
  const bool has_size = is_list && (sizes.shape.rank == 0 || sizes.shape.dims[0] < 0 ||
                                    static_cast<std::size_t>(sizes.shape.dims[0]) == shape.rank);
  Require(has_size, [&] { return "orig_input_shape has not " + std::to_string(shape.rank) + " values"; });
  return y.rank == shape.rank ? y : shape;
}

// The operands of a gradient as the model has them, with the sizes of grad and argmax that a Run will have.
Arguments DeclaredOperands(const DialectOp& op, const Attributes& attributes, const std::vector<Argument>& inputs,
                           const Shape& y) {
  const auto input = [&](Part part) -> const Argument* {
    const std::optional<std::size_t> position = PositionOf(op.inputs, part);
    return position ? &inputs[*position] : nullptr;
  };
  Arguments operands;
  operands.grad = *input(Part::kGrad);
  if (const Argument* argmax = input(Part::kArgmax)) operands.argmax = *argmax;
  if (const Argument* x = input(Part::kX)) {
    operands.x = *x;
  } else {
    const Argument* sizes = input(Part::kSizes);
    operands.x = {operands.grad.type, sizes ? DeclaredShape(attributes, *sizes, y) : *attributes.x_shape};
  }
  if (op.axes == 0) return operands;
  for (Argument* pooled : {&operands.grad, &operands.argmax}) {
    pooled->shape = WithoutDroppedWindows(pooled->shape, operands.x.shape, attributes.window);
  }
  return operands;
}

}  // namespace

const Route& CheckNode(const DialectOp& op, const Attributes& attributes, const aclnn::Backend& backend,
                       bool deterministic, const std::vector<Argument>& inputs, const std::vector<Argument>& outputs) {
  const Route& route =
      op.direction == Direction::kBackward
          ? CheckBackward(op, attributes, backend.product(), DeclaredOperands(op, attributes, inputs, outputs[0].shape))
          : CheckForward(op, attributes, backend.product(), inputs[0]);
  const aclDataType type = AclType(outputs[0].type);  // that of x and of the gradients
  if (op.direction == Direction::kForward) {
    // onnxruntime infers argmax's type from the function body or the operator's schema, not from this attribute.
    Require(outputs[1].type == attributes.argmax_type,
            [&] { return std::string("argmax is not of the type that the attribute ") + op.index_type + " says"; });
  }
  const aclnn::Function& function = backend.api().function(route.entry);
  Require(function.found(), [&] { return std::string("no library of this CANN has ") + function.phase_2; });
  const std::string refusal = backend.probes().RefusalOf(backend, function, type, deterministic);
  Require(refusal.empty(),
          [&] { return std::string("this CANN does not run it on ") + NameOf(backend.product()) + ": " + refusal; });
  return route;
}

}  // namespace poolgrad::ep
