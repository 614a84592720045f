// SPDX-License-Identifier: Apache-2.0

// The operators of the ONNX domain "npu", version 1.
#ifndef POOLGRAD_EP_DIALECT_H_
#define POOLGRAD_EP_DIALECT_H_

#include <cstddef>
#include <cstring>

namespace poolgrad::ep {

constexpr const char* kDialectDomain = "npu";
constexpr int kDialectVersion = 1;

// Gives tensors of rank 0 one axis: x0, x1, ... -> y0, y1, ... It is no pool, and aclnn has no function for it.
constexpr const char* kUnsqueezeScalars = "UnsqueezeScalars";

enum class Direction {
  kForward,   // x -> y, argmax
  kBackward,  // x, grad, argmax -> y, where y has the shape and type of x
};

struct DialectOp {
  const char* name;
  Direction direction;
  std::size_t axes;         // the length of ksize, strides, pads and dilation; 0: adaptive
  const char* data_format;  // the supported value
  const char* index_type;   // the attribute that names argmax's type
};

constexpr DialectOp kDialectOps[] = {
    {"MaxPool3DGradWithArgmax", Direction::kBackward, 3, "NCDHW", nullptr},
    {"MaxPoolGradWithArgmaxV3", Direction::kBackward, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3DGrad", Direction::kBackward, 0, nullptr, nullptr},
    {"MaxPool3DWithArgmaxV2", Direction::kForward, 3, "NCDHW", "dtype"},
    {"MaxPoolWithArgmaxV3", Direction::kForward, 2, "NCHW", "dtype"},
    {"AdaptiveMaxPool3d", Direction::kForward, 0, nullptr, "indices_dtype"},
};

constexpr std::size_t InputCount(const DialectOp& op) { return op.direction == Direction::kForward ? 1 : 3; }
constexpr std::size_t OutputCount(const DialectOp& op) { return op.direction == Direction::kForward ? 2 : 1; }

// The operator of this name, or null.
inline const DialectOp* FindDialectOp(const char* name) {
  for (const DialectOp& op : kDialectOps) {
    if (std::strcmp(op.name, name) == 0) return &op;
  }
  return nullptr;
}

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DIALECT_H_
