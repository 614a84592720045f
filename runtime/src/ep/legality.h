// Whether a dialect node, as far as its types and shapes are known, can run on a product.
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

struct Arguments {
  Argument x;
  Argument grad;
  Argument argmax;
};

// float32, float16 or bfloat16.
bool IsValueType(ort::ONNXTensorElementDataType type);

bool IsInt64(ort::ONNXTensorElementDataType type);

// The route for x and argmax. Throws InvalidArgument if the product has none.
const Route& RequireRoute(const DialectOp& op, aclnn::Product product, const Shape& x,
                          ort::ONNXTensorElementDataType argmax);

// The route of a gradient whose arguments passed every check that their known sizes allow; with all sizes known
// these are all that aclnn needs and does not make itself. Throws InvalidArgument with the reason.
const Route& CheckBackward(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                           const Arguments& arguments);

// The same of a pool.
const Route& CheckForward(const DialectOp& op, const Attributes& attributes, aclnn::Product product, const Argument& x);

// The route of a node whose arguments passed the checks of its direction, on a backend that has the function and does
// not refuse the product there. Throws InvalidArgument with the reason. `deterministic`: whether the node's sums must
// not depend on scheduling.
const Route& CheckNode(const DialectOp& op, const Attributes& attributes, const aclnn::Backend& backend,
                       bool deterministic, const std::vector<Argument>& inputs, const std::vector<Argument>& outputs);

// The shape of y and argmax, of an x that passed CheckForward with all its sizes known.
Shape PooledShape(const DialectOp& op, const Attributes& attributes, const Shape& x);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_LEGALITY_H_
