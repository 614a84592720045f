// SPDX-License-Identifier: Apache-2.0

#include "ep/output_shapes.h"

#include <algorithm>
#include <array>

#include "ep/legality.h"
#include "ep/node.h"
#include "ep/pooling.h"

namespace poolgrad::ep {
namespace {

using Names = std::array<const char*, Shape::kMaxRank>;  // of sizes that are not known; "" for no name

class InferenceAttributes : public OpAttributes {
 public:
  InferenceAttributes(const OrtContext& ort, const ort::OrtShapeInferContext* context)
      : OpAttributes(ort), context_(context) {}

 private:
  const ort::OrtOpAttr* Find(const char* name) const override {
    const ort::OrtOpAttr* attribute = nullptr;
    Check(ort_.api, ort_.api.ShapeInferContext_GetAttribute(context_, name, &attribute));
    return attribute;
  }

  const ort::OrtShapeInferContext* context_;
};

// Sets the shape only if each size is a number or has a name: onnxruntime would read an unknown size without a name as
// the number -1.
void SetOutput(const OrtContext& ort, ort::OrtShapeInferContext* context, std::size_t index, const Argument& output,
               Names names) {
  const Shape& shape = output.shape;
  for (std::size_t axis = 0; axis < shape.rank; ++axis) {
    if (shape.dims[axis] < 0 && *names[axis] == '\0') return;
  }
  ort::OrtTensorTypeAndShapeInfo* created = nullptr;
  Check(ort.api, ort.api.CreateTensorTypeAndShapeInfo(&created));
  const OrtHandle<ort::OrtTensorTypeAndShapeInfo> info(created, ort.api.ReleaseTensorTypeAndShapeInfo);
  // onnxruntime takes the output's type from the same object, where it is float32 unless it is set.
  Check(ort.api, ort.api.SetTensorElementType(info.get(), output.type));
  Check(ort.api, ort.api.SetDimensions(info.get(), shape.dims.data(), shape.rank));
  Check(ort.api, ort.api.SetSymbolicDimensions(info.get(), names.data(), shape.rank));
  Check(ort.api, ort.api.ShapeInferContext_SetOutputTypeShape(context, index, info.get()));
}

// Sets the outputs of a pool whose N and C may be unknown.
void InferPooled(const OrtContext& ort, const DialectOp& op, aclnn::Product product, Argument x, Names names,
                 ort::OrtShapeInferContext* context) {
  const Attributes attributes = ReadAttributes(op, InferenceAttributes(ort, context));
  const Shape open = x.shape;
  for (std::size_t axis = 0; axis < kFirstSpatialAxis; ++axis) {
    if (open.dims[axis] < 0) x.shape.dims[axis] = 1;
  }
  CheckForward(op, attributes, product, x);
  if (!x.shape.IsKnown()) return;
  Shape pooled = PooledShape(op, attributes, x.shape);
  std::copy_n(open.dims.begin(), kFirstSpatialAxis, pooled.dims.begin());
  SetOutput(ort, context, 0, {x.type, pooled}, names);
  SetOutput(ort, context, 1, {*attributes.argmax_type, pooled}, names);
}

Argument InputOf(const OrtContext& ort, ort::OrtShapeInferContext* context, std::size_t index, Names* names) {
  ort::OrtTensorTypeAndShapeInfo* info = nullptr;  // owned by the context
  Check(ort.api, ort.api.ShapeInferContext_GetInputTypeShape(context, index, &info));
  const Argument argument = ReadArgument(ort, info);
  if (names != nullptr) Check(ort.api, ort.api.GetSymbolicDimensions(info, names->data(), argument.shape.rank));
  return argument;
}

// Sets the gradient of an x that is no input, if an attribute has its shape. The values of inputs are not known here.
void InferShaped(const OrtContext& ort, const DialectOp& op, ort::OrtShapeInferContext* context) {
  if (Has(op.inputs, Part::kSizes)) return;
  const Argument grad = InputOf(ort, context, *PositionOf(op.inputs, Part::kGrad), nullptr);
  const Attributes attributes = ReadAttributes(op, InferenceAttributes(ort, context));
  Names names;
  names.fill("");
  SetOutput(ort, context, 0, {grad.type, *attributes.x_shape}, names);
}

}  // namespace

void InferOutputShapes(const OrtContext& ort, const DialectOp& op, aclnn::Product product,
                       ort::OrtShapeInferContext* context) {
  const std::optional<std::size_t> position = PositionOf(op.inputs, Part::kX);
  if (!position) return InferShaped(ort, op, context);
  Names names{};
  const Argument x = InputOf(ort, context, *position, &names);
  if (x.shape.rank == 0) return;
  if (op.direction == Direction::kForward) {
    InferPooled(ort, op, product, x, names, context);
  } else {
    SetOutput(ort, context, 0, x, names);
  }
}

}  // namespace poolgrad::ep
