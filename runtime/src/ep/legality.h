// Whether a dialect node, as far as its types and shapes are known, can run on a product.
#ifndef POOLGRAD_EP_LEGALITY_H_
#define POOLGRAD_EP_LEGALITY_H_

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

// The route of a node whose arguments passed every check that their known sizes allow; with all sizes known
// these are all that aclnn needs and does not make itself. Throws InvalidArgument with the reason.
const Route& CheckArguments(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                            const Arguments& arguments);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_LEGALITY_H_
