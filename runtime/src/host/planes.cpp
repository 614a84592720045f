#include "host/planes.h"

namespace poolgrad::host {

bool Planes::PlaneIsContiguous() const {
  int64_t expected = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected *= dims[axis];
  }
  return true;
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
