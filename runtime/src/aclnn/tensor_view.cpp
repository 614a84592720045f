// SPDX-License-Identifier: Apache-2.0

#include "aclnn/tensor_view.h"

namespace poolgrad::aclnn {
namespace {

// The product of the sizes from this axis on.
std::int64_t Multiply(const TensorView& view, std::size_t axis) {
  std::int64_t product = 1;
  for (; axis < view.rank; ++axis) product *= view.dims[axis];
  return product;
}

}  // namespace

std::int64_t ElementCount(const TensorView& view) { return Multiply(view, 0); }

std::array<std::int64_t, kMaxRank> ContiguousStrides(const TensorView& view) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  for (std::size_t axis = view.rank; axis-- > 0; stride *= view.dims[axis]) strides[axis] = stride;
  return strides;
}

std::int64_t PlaneSize(const TensorView& view) { return Multiply(view, 2); }

std::size_t ByteCount(const TensorView& view) {
  std::size_t element = 0;
  switch (view.type) {
    case ACL_INT64:
      element = 8;
      break;
    case ACL_FLOAT:
    case ACL_INT32:
      element = 4;
      break;
    default:  // ACL_FLOAT16, ACL_BF16
      element = 2;
  }
  return element * static_cast<std::size_t>(ElementCount(view));
}

}  // namespace poolgrad::aclnn
