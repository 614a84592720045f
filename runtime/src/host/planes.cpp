// SPDX-License-Identifier: Apache-2.0

#include "host/planes.h"

#include <limits>

namespace poolgrad::host {

bool Planes::PlaneIsContiguous() const {
  int64_t expected = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected *= dims[axis];
  }
  return true;
}

Use UseOf(const char* name, Planes& planes, const aclTensor& tensor, bool written) {
  int64_t least = planes.offset;
  int64_t greatest = planes.offset;
  const auto widen = [&](int64_t dim, int64_t stride) { (stride < 0 ? least : greatest) += (dim - 1) * stride; };
  widen(planes.n, planes.n_stride);
  widen(planes.c, planes.c_stride);
  for (size_t axis = 0; axis < planes.dims.size(); ++axis) widen(planes.dims[axis], planes.strides[axis]);
  const int64_t reach = greatest - least + 1;
  const size_t element = ElementSize(tensor.dtype);
  size_t size = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(reach), element, &size)) size = std::numeric_limits<size_t>::max();
  const auto first = reinterpret_cast<uintptr_t>(planes.storage) + static_cast<size_t>(least) * element;
  planes.storage = reinterpret_cast<void*>(first);
  planes.offset -= least;
  return {name, planes.storage, size, Place::kDevice, written, reach == planes.count() * planes.plane_size()};
}

Planes PlanesOf(const aclTensor& tensor, int64_t axes, bool channels_last) {
  Planes planes{tensor.data, tensor.offset, 1, 1, 0, 0, {1, 1, 1}, {0, 0, 0}};
  size_t next = 0;
  const auto read = [&](int64_t& dim, int64_t& stride) {
    dim = tensor.dims[next];
    stride = tensor.strides[next++];
  };
  if (tensor.rank() == axes + 2) read(planes.n, planes.n_stride);
  if (!channels_last) read(planes.c, planes.c_stride);
  for (size_t axis = planes.dims.size() - static_cast<size_t>(axes); axis < planes.dims.size(); ++axis) {
    read(planes.dims[axis], planes.strides[axis]);
  }
  if (channels_last) read(planes.c, planes.c_stride);
  return planes;
}

}  // namespace poolgrad::host
