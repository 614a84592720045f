// SPDX-License-Identifier: Apache-2.0

// The sizes of planes before and after pooling.
#ifndef POOLGRAD_EP_POOLING_H_
#define POOLGRAD_EP_POOLING_H_

#include <limits>

#include "aclnn/call.h"
#include "ep/attributes.h"
#include "ep/shape.h"

namespace poolgrad::ep {

using Dims = std::array<std::int64_t, Shape::kMaxRank>;  // N, C, D, H, W

constexpr std::size_t kFirstSpatialAxis = 2;
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// The output size of a pool over `size` elements along an axis of the window. Does not overflow for sizes up to 2^48.
std::int64_t PooledSize(std::int64_t size, const aclnn::Window& window, std::size_t axis);

// The same by the pool's onnx_* attributes, which its function body uses.
std::int64_t OnnxPooledSize(std::int64_t size, const aclnn::Window& window, const OnnxWindow& onnx, std::size_t axis);

// The shape that a pool of x has where `pooled` is the one that ONNX's shape inference gives it, else `pooled`. With
// ceil_mode, inference counts the window that runtimes drop. `x` and `pooled` are those of a model, not of a Run.
Shape WithoutDroppedWindows(Shape pooled, const Shape& x, const aclnn::Window& window);

// The window for a call of aclnn's function for an average pool's gradient: the node's, and its divisor where the
// function would take another one.
aclnn::Window AverageWindowFor(aclnn::Entry entry, const aclnn::Window& window, ort::ONNXTensorElementDataType type,
                               const Shape& x, const Shape& grad);

// The number of elements of one (n, c) plane, or the largest int64 on overflow: a model may declare any sizes.
std::int64_t PlaneSize(const Dims& dims);

// Throws InvalidArgument if a size exceeds 2^48, so that sums of sizes do not overflow.
void RequireReasonable(const Shape& x);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_POOLING_H_
