// SPDX-License-Identifier: Apache-2.0

// Shape inference of the custom operators.
#ifndef POOLGRAD_EP_OUTPUT_SHAPES_H_
#define POOLGRAD_EP_OUTPUT_SHAPES_H_

#include "aclnn/product.h"
#include "ep/dialect.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// Sets the shapes of the node's outputs as far as they follow from those of its inputs. Throws InvalidArgument if the
// node cannot run.
void InferOutputShapes(const OrtContext& ort, const DialectOp& op, aclnn::Product product,
                       ort::OrtShapeInferContext* context);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OUTPUT_SHAPES_H_
