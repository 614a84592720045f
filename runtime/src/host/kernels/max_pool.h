// SPDX-License-Identifier: Apache-2.0

// The kernel of every max pool.
#ifndef POOLGRAD_HOST_KERNELS_MAX_POOL_H_
#define POOLGRAD_HOST_KERNELS_MAX_POOL_H_

#include <array>

#include "host/planes.h"
#include "host/window.h"

namespace poolgrad::host {

// For each plane (n, c) and each position of out: the maximum of its window over self, and its index in the plane of
// self in row-major order. Of equal values the first is the maximum. NaN is greater than every number, and of several
// NaNs the last is the maximum. No window may be empty.
struct MaxPool {
  Planes self;
  Planes out;
  Planes indices;
  std::array<AxisSpans, 3> axes;  // D, H, W
};

// The kernel for values of type `values` (FLOAT, FLOAT16, BF16) and indices of type `indices` (INT32, INT64);
// null if there is none. Every index must fit into its type.
using MaxPoolKernel = void (*)(const MaxPool& work);
MaxPoolKernel FindMaxPool(aclDataType values, aclDataType indices);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_MAX_POOL_H_
