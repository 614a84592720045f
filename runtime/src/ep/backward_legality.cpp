// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "ep/legality.h"
#include "ep/pooling.h"

namespace poolgrad::ep {
namespace {

void CheckTypes(const DialectOp& op, const Attributes& attributes, const Arguments& arguments) {
  Require(IsValueType(arguments.x.type),
          [&] { return std::string(ReadsArgmax(op) ? "x" : "grad") + " is not float32, float16 or bfloat16"; });
  Require(arguments.grad.type == arguments.x.type, "grad and x differ in type");
  if (!ReadsArgmax(op)) return;
  const ort::ONNXTensorElementDataType argmax = arguments.argmax.type;
  Require(IsInt64(argmax) || argmax == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "argmax is not int32 or int64");
  Require(attributes.argmax_type.value_or(argmax) == argmax, "argmax is not of the type that the attribute dtype says");
}

void CheckRank(const char* name, const Shape& shape, const Shape& x) {
  Require(shape.rank == 0 || shape.rank == x.rank, [&] {
    return std::string(name) + " has rank " + std::to_string(shape.rank) + ", x has rank " + std::to_string(x.rank);
  });
}

void CheckPooledShape(const aclnn::Window& window, const Arguments& arguments, const Dims& x, const Dims& grad) {
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const std::int64_t expected = PooledSize(x[kFirstSpatialAxis + axis], window, axis);
    Require(grad[kFirstSpatialAxis + axis] == expected, [&] {
      return "grad " + ToString(arguments.grad.shape) + " is not the pooled shape of x " + ToString(arguments.x.shape) +
             ": along " + "DHW"[axis] + " the window gives " + std::to_string(expected);
    });
  }
}

// CANN takes an output that is larger than the input, but none of its test cases has one: it is not known whether the
// kernels compute it.
void CheckAdaptiveShape(const Arguments& arguments, const Dims& x, const Dims& grad) {
  for (std::size_t axis = kFirstSpatialAxis; axis < x.size(); ++axis) {
    Require(grad[axis] <= x[axis], [&] {
      return "grad " + ToString(arguments.grad.shape) + " has more positions along an axis than x " +
             ToString(arguments.x.shape) + " has elements";
    });
  }
}

// The number of elements, or `most` if there are more. Sizes are reasonable, so that nothing overflows.
std::int64_t SizeUpTo(std::int64_t most, const Shape& shape) {
  std::int64_t size = 1;
  for (std::size_t axis = 0; axis < shape.rank; ++axis) size = std::min(most, size * shape.dims[axis]);
  return size;
}

void CheckPlane(const DialectOp& op, const Route& route, const Arguments& arguments, const Dims& x, const Dims& grad) {
  bool even = true;
  for (std::size_t axis = kFirstSpatialAxis; axis < x.size(); ++axis) {
    even = even && grad[axis] > 0 && x[axis] % grad[axis] == 0;
  }
  const std::int64_t of_route = even ? route.max_plane : route.max_uneven_plane;
  const bool has_int32_argmax = ReadsArgmax(op) && !IsInt64(arguments.argmax.type);
  const std::int64_t limit = has_int32_argmax ? std::min(of_route, kInt32Max) : of_route;
  Require(PlaneSize(x) <= limit, [&] {
    return "a plane of x " + ToString(arguments.x.shape) + " has more than " + std::to_string(limit) + " elements";
  });
}

// The tiling of a gradient of average pools divides by zero for float16 and bfloat16 if x has fewer elements than it
// uses cores, of which each has at least one element of grad (ops-nn of August 2026, Tiling4CastCopyOut in
// pooling/avg_pool3_d_grad/op_host/avg_pool_3d_grad_tiling.cpp, lines 288-302; coreNum_ in lines 643-648). Only windows
// that overlap, with a kernel of an even size half of which is padding, are more than the elements.
void CheckCores(const Route& route, const Arguments& arguments) {
  if (arguments.x.type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) return;
  const std::int64_t elements = SizeUpTo(route.average_cores, arguments.x.shape);
  Require(elements >= SizeUpTo(route.average_cores, arguments.grad.shape), [&] {
    return "grad " + ToString(arguments.grad.shape) + " has more elements than x " + ToString(arguments.x.shape) +
           ", and x fewer than the product has cores: CANN divides by zero then";
  });
}

void CheckShapes(const DialectOp& op, const Route& route, const Attributes& attributes, const Arguments& arguments) {
  const Shape& x = arguments.x.shape;
  const Shape& grad = arguments.grad.shape;
  const Shape& argmax = arguments.argmax.shape;
  Require(!ReadsArgmax(op) || argmax.dims == grad.dims,
          [&] { return "argmax " + ToString(argmax) + " and grad " + ToString(grad) + " differ in shape"; });
  Require(grad.dims[0] == x.dims[0] && grad.dims[1] == x.dims[1],
          [&] { return "grad " + ToString(grad) + " and x " + ToString(x) + " differ in N or C"; });
  if (x.IsEmpty()) {
    Require(grad.IsEmpty(), [&] { return "x " + ToString(x) + " is empty, grad " + ToString(grad) + " is not"; });
    return;
  }
  RequireReasonable(x);
  const Dims x_dims = x.AsNcdhw();
  const Dims grad_dims = grad.AsNcdhw();
  if (op.axes > 0) {
    CheckPooledShape(attributes.window, arguments, x_dims, grad_dims);
    CheckCores(route, arguments);
  } else {
    CheckAdaptiveShape(arguments, x_dims, grad_dims);
  }
  CheckPlane(op, route, arguments, x_dims, grad_dims);
}

}  // namespace

const Route& CheckBackward(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                           const Arguments& arguments) {
  const Shape& x = arguments.x.shape;
  CheckTypes(op, attributes, arguments);
  const Route& route = RequireRoute(op, product, x, arguments.argmax.type);
  CheckRank("grad", arguments.grad.shape, x);
  CheckRank("argmax", arguments.argmax.shape, x);
  Require(attributes.onnx.rank == 0 || attributes.onnx.rank + kFirstSpatialAxis == x.rank,
          "onnx_kernel_shape is not for the rank of x");
  const bool knows_argmax = !ReadsArgmax(op) || arguments.argmax.shape.IsKnown();
  if (x.IsKnown() && arguments.grad.shape.IsKnown() && knows_argmax) CheckShapes(op, route, attributes, arguments);
  return route;
}

}  // namespace poolgrad::ep
