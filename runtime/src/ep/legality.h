// SPDX-License-Identifier: Apache-2.0

// Checks whether a dialect node can run on a product, as far as its types and shapes are known.
#ifndef POOLGRAD_EP_LEGALITY_H_
#define POOLGRAD_EP_LEGALITY_H_

#include "aclnn/backend.h"
#include "ep/attributes.h"
#include "ep/routes.h"
#include "ep/shape.h"

namespace poolgrad::ep {

struct Argument {
  ort::ONNXTensorElementDataType type = ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Shape shape;
};

// Of an operator without x, `x` has the type of grad and the shape that the operator is given for it; `argmax` is empty
// for an operator without it.
struct Arguments {
  Argument x;
  Argument grad;
  Argument argmax;
};

// float32, float16 or bfloat16.
bool IsValueType(ort::ONNXTensorElementDataType type);

bool IsInt64(ort::ONNXTensorElementDataType type);

aclDataType AclType(ort::ONNXTensorElementDataType type);

// The route for x and argmax, whose type says nothing for operators without it. Throws InvalidArgument if the product
// has none.
const Route& RequireRoute(const DialectOp& op, aclnn::Product product, const Shape& x,
                          ort::ONNXTensorElementDataType argmax);

// Checks a gradient's arguments as far as their sizes are known, and returns its route. If all sizes are known, the
// call satisfies every requirement of aclnn that aclnn does not check. Throws InvalidArgument with the reason.
const Route& CheckBackward(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                           const Arguments& arguments);

// The same for a pool.
const Route& CheckForward(const DialectOp& op, const Attributes& attributes, aclnn::Product product, const Argument& x);

// Checks a node's arguments, and that the backend has the node's function and runs it on its product. Returns the
// route. Throws InvalidArgument with the reason. `deterministic`: whether the node's sums must not depend on
// scheduling.
const Route& CheckNode(const DialectOp& op, const Attributes& attributes, const aclnn::Backend& backend,
                       bool deterministic, const std::vector<Argument>& inputs, const std::vector<Argument>& outputs);

// The shape of y and argmax for an x with known sizes that passed CheckForward.
Shape PooledShape(const DialectOp& op, const Attributes& attributes, const Shape& x);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_LEGALITY_H_
