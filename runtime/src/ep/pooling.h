// Sizes of planes and of what pooling makes of them.
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

// The output size of a pool of `size` elements along an axis of the window. Sizes up to 2^48 do not overflow.
std::int64_t PooledSize(std::int64_t size, const aclnn::Window& window, std::size_t axis);

// The same in ONNX's words, for the pool's function body.
std::int64_t OnnxPooledSize(std::int64_t size, const aclnn::Window& window, const OnnxWindow& onnx, std::size_t axis);

// Elements of one (n, c) plane, or the largest int64: a model may declare any sizes.
std::int64_t PlaneSize(const Dims& dims);

// Throws InvalidArgument if a size is larger than any memory, so that no sum of sizes overflows.
void RequireReasonable(const Shape& x);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_POOLING_H_
