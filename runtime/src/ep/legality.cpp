#include "ep/legality.h"

#include <algorithm>
#include <limits>

namespace poolgrad::ep {
namespace {

using Dims = std::array<std::int64_t, Shape::kMaxRank>;

constexpr std::size_t kFirstSpatialAxis = 2;
constexpr std::int64_t kMaxDim = std::int64_t{1} << 48;  // no memory holds more, and no sum of sizes overflows

void Require(bool condition, const std::string& reason) {
  if (!condition) throw InvalidArgument(reason);
}

bool IsValueType(ort::ONNXTensorElementDataType type) {
  return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

void CheckTypes(const Route& route, const Attributes& attributes, const Arguments& arguments) {
  Require(IsValueType(arguments.x.type), "x is not float32, float16 or bfloat16");
  Require(arguments.grad.type == arguments.x.type, "grad and x differ in type");
  const ort::ONNXTensorElementDataType argmax = arguments.argmax.type;
  const bool is_int64 = argmax == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  Require(is_int64 || argmax == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "argmax is not int32 or int64");
  Require(!is_int64 || route.takes_int64, "argmax is int64, and this product takes int32 only");
  Require(attributes.argmax_type.value_or(argmax) == argmax, "argmax is not of the type that the attribute dtype says");
}

void CheckRank(const char* name, const Shape& shape, const Shape& x) {
  Require(shape.rank == 0 || shape.rank == x.rank,
          std::string(name) + " has rank " + std::to_string(shape.rank) + ", x has rank " + std::to_string(x.rank));
}

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The output size of a pool along one axis (CANN documentation of aclnnMaxPool3dWithArgmax): with ceil_mode
// the last window is dropped if it starts in the right padding.
std::int64_t PooledSize(std::int64_t size, const aclnn::Window& window, std::size_t axis) {
  const std::int64_t padding = window.padding[axis];
  const std::int64_t stride = window.stride[axis];
  const std::int64_t span = size + 2 * padding - window.dilation[axis] * (window.kernel[axis] - 1) - 1;
  const std::int64_t pooled = FloorDivide(span + (window.ceil_mode ? stride - 1 : 0), stride) + 1;
  return window.ceil_mode && (pooled - 1) * stride >= size + padding ? pooled - 1 : pooled;
}

void CheckPooledShape(const aclnn::Window& window, const Arguments& arguments) {
  const Dims x = arguments.x.shape.AsNcdhw();
  const Dims grad = arguments.grad.shape.AsNcdhw();
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const std::int64_t expected = PooledSize(x[kFirstSpatialAxis + axis], window, axis);
    Require(grad[kFirstSpatialAxis + axis] == expected,
            "grad " + ToString(arguments.grad.shape) + " is not the pooled shape of x " + ToString(arguments.x.shape) +
                ": along " + "DHW"[axis] + " the window gives " + std::to_string(expected));
  }
}

// An adaptive window of less than one element is not among what the aclnn operators document.
void CheckAdaptiveShape(const Arguments& arguments) {
  const Dims x = arguments.x.shape.AsNcdhw();
  const Dims grad = arguments.grad.shape.AsNcdhw();
  for (std::size_t axis = kFirstSpatialAxis; axis < x.size(); ++axis) {
    Require(grad[axis] <= x[axis], "grad " + ToString(arguments.grad.shape) +
                                       " has more positions along an axis than x " + ToString(arguments.x.shape) +
                                       " has elements");
  }
}

// Elements of one (n, c) plane, or the largest int64: a model may declare any sizes.
std::int64_t PlaneSize(const Dims& dims) {
  std::int64_t size = 1;
  for (std::size_t axis = kFirstSpatialAxis; axis < dims.size(); ++axis) {
    if (__builtin_mul_overflow(size, dims[axis], &size)) return std::numeric_limits<std::int64_t>::max();
  }
  return size;
}

void CheckPlane(const Route& route, const Arguments& arguments) {
  const Dims x = arguments.x.shape.AsNcdhw();
  const Dims grad = arguments.grad.shape.AsNcdhw();
  bool even = true;
  for (std::size_t axis = kFirstSpatialAxis; axis < x.size(); ++axis) {
    even = even && grad[axis] > 0 && x[axis] % grad[axis] == 0;
  }
  const std::int64_t limit = even ? route.max_plane : route.max_uneven_plane;
  Require(PlaneSize(x) <= limit,
          "a plane of x " + ToString(arguments.x.shape) + " has more than " + std::to_string(limit) + " elements");
}

void CheckShapes(const DialectOp& op, const Route& route, const Attributes& attributes, const Arguments& arguments) {
  const Shape& x = arguments.x.shape;
  const Shape& grad = arguments.grad.shape;
  const Shape& argmax = arguments.argmax.shape;
  Require(argmax.dims == grad.dims, "argmax " + ToString(argmax) + " and grad " + ToString(grad) + " differ in shape");
  Require(grad.dims[0] == x.dims[0] && grad.dims[1] == x.dims[1],
          "grad " + ToString(grad) + " and x " + ToString(x) + " differ in N or C");
  if (x.IsEmpty()) {
    Require(grad.IsEmpty(), "x " + ToString(x) + " is empty, grad " + ToString(grad) + " is not");
    return;
  }
  Require(*std::max_element(x.dims.begin(), x.dims.end()) <= kMaxDim, "x " + ToString(x) + " is too large");
  if (op.axes > 0) {
    CheckPooledShape(attributes.window, arguments);
  } else {
    CheckAdaptiveShape(arguments);
  }
  CheckPlane(route, arguments);
}

}  // namespace

const Route& CheckArguments(const DialectOp& op, const Attributes& attributes, aclnn::Product product,
                            const Arguments& arguments) {
  const Shape& x = arguments.x.shape;
  const Route* route = FindRoute(op, product, x.rank);
  Require(route != nullptr, "x has rank " + std::to_string(x.rank) + ", for which this product has no operator");
  CheckTypes(*route, attributes, arguments);
  CheckRank("grad", arguments.grad.shape, x);
  CheckRank("argmax", arguments.argmax.shape, x);
  if (x.IsKnown() && arguments.grad.shape.IsKnown() && arguments.argmax.shape.IsKnown()) {
    CheckShapes(op, *route, attributes, arguments);
  }
  return *route;
}

}  // namespace poolgrad::ep
