// SPDX-License-Identifier: Apache-2.0

// A view of a tensor as N x C planes of up to three spatial axes, for any rank and channel order.
#ifndef POOLGRAD_HOST_PLANES_H_
#define POOLGRAD_HOST_PLANES_H_

#include <array>
#include <vector>

#include "host/hardware.h"
#include "host/tensor.h"

namespace poolgrad::host {

// Plane (n, c) has dims D, H, W; an axis that the tensor lacks has size 1. Strides and offset count elements.
struct Planes {
  void* storage;
  int64_t offset;
  int64_t n, c;
  int64_t n_stride, c_stride;
  std::array<int64_t, 3> dims, strides;

  int64_t count() const { return n * c; }
  int64_t plane_size() const { return dims[0] * dims[1] * dims[2]; }

  // Offset in the storage of the first element of plane `plane`, counted n * C + c.
  int64_t PlaneOffset(int64_t plane) const {
    if (n_stride == c * c_stride) return offset + plane * c_stride;  // divisions take longer than small planes
    return offset + plane / c * n_stride + plane % c * c_stride;
  }

  // Whether the elements of a plane are contiguous in row-major order.
  bool PlaneIsContiguous() const;

  // N, C, D, H, W.
  std::vector<int64_t> Dims() const { return {n, c, dims[0], dims[1], dims[2]}; }
};

// The memory that the planes of a tensor use; the view must lie in the storage. Moves the planes' storage to the first
// byte of that memory.
Use UseOf(const char* name, Planes& planes, const aclTensor& tensor, bool written);

// The planes of a tensor with `axes` spatial axes (at most 3) after C, or before C if channels come last. N may be
// missing.
Planes PlanesOf(const aclTensor& tensor, int64_t axes, bool channels_last);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_PLANES_H_
