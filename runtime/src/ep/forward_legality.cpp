// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "ep/legality.h"
#include "ep/pooling.h"

namespace poolgrad::ep {
namespace {

std::int64_t PooledSizeOf(const DialectOp& op, const Attributes& attributes, std::int64_t size, std::size_t axis) {
  return op.axes > 0 ? PooledSize(size, attributes.window, axis) : attributes.window.output_size[axis];
}

void CheckDilation(const Route& route, const aclnn::Window& window) {
  const auto is_one = [](std::int64_t dilation) { return dilation == 1; };
  Require(route.takes_dilation || std::all_of(window.dilation.begin(), window.dilation.end(), is_one),
          "dilation is not 1, and this product pools without dilation");
}

// An axis that x lacks has size 1, and must have size 1 in the output.
void CheckAbsentAxes(const DialectOp& op, const Attributes& attributes, const Shape& x) {
  for (std::size_t axis = 0; axis + x.rank < Shape::kMaxRank; ++axis) {
    Require(PooledSizeOf(op, attributes, 1, axis) == 1, [&] {
      return std::string("the attributes pool along ") + "DHW"[axis] + ", which x of rank " + std::to_string(x.rank) +
             " does not have";
    });
  }
}

// Every window must fit into x, and contain an element of x: if the dilation exceeds the size, it may contain padding
// only.
void CheckWindows(const aclnn::Window& window, const OnnxWindow& onnx, const Shape& x) {
  const Dims dims = x.AsNcdhw();
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const std::int64_t size = dims[kFirstSpatialAxis + axis];
    Require(PooledSize(size, window, axis) > 0,
            [&] { return "the window along " + std::string(1, "DHW"[axis]) + " does not fit into x " + ToString(x); });
    Require(window.padding[axis] == 0 || window.dilation[axis] <= size, [&] {
      return "a window along " + std::string(1, "DHW"[axis]) + " may lie in the padding of x " + ToString(x) +
             " altogether";
    });
    Require(axis + onnx.rank < window.kernel.size() ||
                OnnxPooledSize(size, window, onnx, axis) == PooledSize(size, window, axis),
            [&] {
              return "along " + std::string(1, "DHW"[axis]) + " of x " + ToString(x) +
                     " the attributes of ONNX give another number of windows than Ascend's";
            });
  }
}

// CANN takes an output that is larger than the input, but none of its test cases has one: it is not known whether the
// kernels compute it.
void CheckOutputSize(const aclnn::Axes& output_size, const Shape& x) {
  const Dims dims = x.AsNcdhw();
  for (std::size_t axis = 0; axis < output_size.size(); ++axis) {
    Require(output_size[axis] <= dims[kFirstSpatialAxis + axis], [&] {
      return "output_size holds " + std::to_string(output_size[axis]) + ", more positions along an axis than x " +
             ToString(x) + " has elements";
    });
  }
}

void CheckShape(const DialectOp& op, const Route& route, const Attributes& attributes, const Shape& x) {
  RequireReasonable(x);
  const std::int64_t plane = PlaneSize(x.AsNcdhw());
  Require(plane > 0, [&] { return "x " + ToString(x) + " has planes without elements"; });
  if (op.axes > 0) {
    CheckWindows(attributes.window, attributes.onnx, x);
  } else {
    CheckOutputSize(attributes.window.output_size, x);
  }
  const std::int64_t limit = IsInt64(*attributes.argmax_type) ? route.max_plane : std::min(route.max_plane, kInt32Max);
  Require(plane <= limit,
          [&] { return "a plane of x " + ToString(x) + " has more than " + std::to_string(limit) + " elements"; });
}

}  // namespace

const Route& CheckForward(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                          const Argument& x) {
  Require(IsValueType(x.type), "x is not float32, float16 or bfloat16");
  const Route& route = RequireRoute(op, product, x.shape, *attributes.argmax_type);
  CheckDilation(route, attributes.window);
  Require(op.axes == 0 || attributes.onnx.rank + kFirstSpatialAxis == x.shape.rank,
          "onnx_kernel_shape is not for the rank of x");
  CheckAbsentAxes(op, attributes, x.shape);
  if (x.shape.IsKnown()) CheckShape(op, route, attributes, x.shape);
  return route;
}

Shape PooledShape(const DialectOp& op, const Attributes& attributes, const Shape& x) {
  Shape pooled = x;
  const std::size_t absent = Shape::kMaxRank - x.rank;
  for (std::size_t axis = kFirstSpatialAxis; axis < x.rank; ++axis) {
    pooled.dims[axis] = PooledSizeOf(op, attributes, x.dims[axis], absent + axis - kFirstSpatialAxis);
  }
  return pooled;
}

}  // namespace poolgrad::ep
