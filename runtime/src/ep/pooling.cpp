// SPDX-License-Identifier: Apache-2.0

#include "ep/pooling.h"

#include <algorithm>
#include <limits>

#include "ep/ort_context.h"

namespace poolgrad::ep {
namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 48;  // more elements than any memory holds

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The number of windows with those that start in the padding after x.
std::int64_t CountAllWindows(std::int64_t size, const aclnn::Window& window, std::size_t axis, std::int64_t padding_end,
                             bool ceil_mode) {
  const std::int64_t stride = window.stride[axis];
  const std::int64_t extent = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  const std::int64_t span = size + window.padding[axis] + padding_end - extent;
  return FloorDivide(span + (ceil_mode ? stride - 1 : 0), stride) + 1;
}

// The formula of CANN's documentation of aclnnMaxPool3dWithArgmax and of ONNX's of MaxPool: with ceil_mode the last
// window is dropped if it starts in the padding after x.
std::int64_t CountWindows(std::int64_t size, const aclnn::Window& window, std::size_t axis, std::int64_t padding_end,
                          bool ceil_mode) {
  const std::int64_t count = CountAllWindows(size, window, axis, padding_end, ceil_mode);
  return ceil_mode && (count - 1) * window.stride[axis] >= size + window.padding[axis] ? count - 1 : count;
}

}  // namespace

std::int64_t PooledSize(std::int64_t size, const aclnn::Window& window, std::size_t axis) {
  return CountWindows(size, window, axis, window.padding[axis], window.ceil_mode);
}

std::int64_t OnnxPooledSize(std::int64_t size, const aclnn::Window& window, const OnnxWindow& onnx, std::size_t axis) {
  return CountWindows(size, window, axis, onnx.padding_end[axis], onnx.ceil_mode);
}

Shape WithoutDroppedWindows(Shape pooled, const Shape& x, const aclnn::Window& window) {
  if (!window.ceil_mode || pooled.rank != x.rank || !x.IsKnown()) return pooled;
  RequireReasonable(x);
  for (std::size_t dim = kFirstSpatialAxis; dim < x.rank; ++dim) {
    const std::size_t axis = window.kernel.size() - x.rank + dim;
    const std::int64_t size = x.dims[dim];
    const bool is_inferred = pooled.dims[dim] == CountAllWindows(size, window, axis, window.padding[axis], true);
    if (is_inferred) pooled.dims[dim] = PooledSize(size, window, axis);
  }
  return pooled;
}

// Where the kernel has the size of the plane, from 10 elements on along both axes, and there is one window, then
// without a given divisor aclnnAvgPool2dBackward looks at neither padding nor stride: it spreads the gradient over the
// whole plane. It also rounds the number of elements to float16 for float16 gradients, where it is exact up to 2048 and
// may be infinite.
aclnn::Window AverageWindowFor(aclnn::Entry entry, const aclnn::Window& window, ort::ONNXTensorElementDataType type,
                               const Shape& x, const Shape& grad) {
  constexpr std::int64_t kLeastGlobal = 10;
  constexpr std::int64_t kExactInFloat16 = 2048;
  constexpr std::size_t kHeight = 1;
  if (entry != aclnn::Entry::kAvgPool2dBackward || window.divisor_override != 0) return window;
  const Dims x_dims = x.AsNcdhw();
  const Dims grad_dims = grad.AsNcdhw();
  std::int64_t kernel = 1;
  std::int64_t counted = 1;
  bool is_padded = false;
  for (std::size_t axis = kHeight; axis < window.kernel.size(); ++axis) {
    const std::int64_t size = x_dims[kFirstSpatialAxis + axis];
    if (window.kernel[axis] != size || size < kLeastGlobal || grad_dims[kFirstSpatialAxis + axis] != 1) return window;
    kernel *= size;
    counted *= window.count_include_pad ? size : size - window.padding[axis];
    is_padded = is_padded || window.padding[axis] > 0;
  }
  const bool is_rounded = type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 && kernel > kExactInFloat16;
  aclnn::Window adjusted = window;
  if (is_padded || is_rounded) adjusted.divisor_override = counted;
  return adjusted;
}

std::int64_t PlaneSize(const Dims& dims) {
  std::int64_t size = 1;
  for (std::size_t axis = kFirstSpatialAxis; axis < dims.size(); ++axis) {
    if (__builtin_mul_overflow(size, dims[axis], &size)) return std::numeric_limits<std::int64_t>::max();
  }
  return size;
}

void RequireReasonable(const Shape& x) {
  Require(*std::max_element(x.dims.begin(), x.dims.end()) <= kMaxDim,
          [&] { return "x " + ToString(x) + " is too large"; });
}

}  // namespace poolgrad::ep
