// SPDX-License-Identifier: Apache-2.0

// The operators of the ONNX domain "npu", version 1.
#ifndef POOLGRAD_EP_DIALECT_H_
#define POOLGRAD_EP_DIALECT_H_

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace poolgrad::ep {

constexpr const char* kDialectDomain = "npu";
constexpr int kDialectVersion = 1;

// Gives tensors of rank 0 one axis: x0, x1, ... -> y0, y1, ... It is no pool, and aclnn has no function for it.
constexpr const char* kUnsqueezeScalars = "UnsqueezeScalars";

enum class Direction {
  kForward,   // x -> y, argmax
  kBackward,  // grad and others -> y, where y has the shape and type of x
};

// What an input or output of an operator is.
enum class Part {
  kX,       // the pooled input
  kGrad,    // the gradient of the pooled output
  kArgmax,  // the positions of the maxima
  kSizes,   // the shape of x, int32
  kY,       // the pooled output, or the gradient of x
};
using Parts = std::initializer_list<Part>;

struct DialectOp {
  const char* name;
  Direction direction;
  Parts inputs;
  Parts outputs;
  std::size_t axes;         // the spatial axes of ksize, strides and pads; 0: adaptive
  const char* data_format;  // the supported value; null without this attribute
  const char* index_type;   // the attribute that names argmax's type
};

// Of a gradient without an input for x or for its shape, the attribute orig_input_shape is that shape.
inline constexpr Parts kMaxPoolInputs = {Part::kX};
inline constexpr Parts kMaxPoolOutputs = {Part::kY, Part::kArgmax};
inline constexpr Parts kMaxPoolGradInputs = {Part::kX, Part::kGrad, Part::kArgmax};
inline constexpr Parts kSizesAndGrad = {Part::kSizes, Part::kGrad};
inline constexpr Parts kGradAndX = {Part::kGrad, Part::kX};
inline constexpr Parts kGrad = {Part::kGrad};
inline constexpr Parts kGradOutputs = {Part::kY};

inline constexpr DialectOp kDialectOps[] = {
    {"MaxPool3DGradWithArgmax", Direction::kBackward, kMaxPoolGradInputs, kGradOutputs, 3, "NCDHW", nullptr},
    {"MaxPoolGradWithArgmaxV3", Direction::kBackward, kMaxPoolGradInputs, kGradOutputs, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3DGrad", Direction::kBackward, kMaxPoolGradInputs, kGradOutputs, 0, nullptr, nullptr},
    {"MaxPool3DWithArgmaxV2", Direction::kForward, kMaxPoolInputs, kMaxPoolOutputs, 3, "NCDHW", "dtype"},
    {"MaxPoolWithArgmaxV3", Direction::kForward, kMaxPoolInputs, kMaxPoolOutputs, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3d", Direction::kForward, kMaxPoolInputs, kMaxPoolOutputs, 0, nullptr, "indices_dtype"},
    {"AvgPool3DGrad", Direction::kBackward, kSizesAndGrad, kGradOutputs, 3, "NCDHW", nullptr},
    {"AvgPoolV2Grad", Direction::kBackward, kSizesAndGrad, kGradOutputs, 2, "NCHW", nullptr},
    {"AdaptiveAvgPool3dGrad", Direction::kBackward, kGradAndX, kGradOutputs, 0, "NCDHW", nullptr},
    {"AdaptiveAvgPool2dGrad", Direction::kBackward, kGrad, kGradOutputs, 0, nullptr, nullptr},
};

// The position of a part among inputs or outputs, or nullopt.
constexpr std::optional<std::size_t> PositionOf(Parts parts, Part part) {
  std::size_t position = 0;
  for (const Part each : parts) {
    if (each == part) return position;
    ++position;
  }
  return std::nullopt;
}

constexpr bool Has(Parts parts, Part part) { return PositionOf(parts, part).has_value(); }

// Whether the operator is the gradient of a max pool, which adds at the positions of the maxima. The other gradients
// are those of average pools.
constexpr bool ReadsArgmax(const DialectOp& op) { return Has(op.inputs, Part::kArgmax); }

// The operator of this name, or null.
inline const DialectOp* FindDialectOp(const char* name) {
  for (const DialectOp& op : kDialectOps) {
    if (std::strcmp(op.name, name) == 0) return &op;
  }
  return nullptr;
}

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DIALECT_H_
