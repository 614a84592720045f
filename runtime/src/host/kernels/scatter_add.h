// SPDX-License-Identifier: Apache-2.0

// The kernel of every max-pool gradient.
#ifndef POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_
#define POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_

#include "host/planes.h"
#include "host/status.h"
#include "host/window.h"

namespace poolgrad::host {

// gradInput = 0; then for each plane (n, c) and each position o of gradOutput in row-major order, or from the last one
// to the first, gradInput[n, c, indices[n, c, o]] += gradOutput[n, c, o].
struct ScatterAdd {
  Planes grad_output;
  Planes indices;
  Planes grad_input;
  // If given, gradients whose index is outside of their window are left out.
  std::array<AxisSpans, 3> windows = {};
  bool reversed = false;

  bool has_windows() const { return !windows[0].spans.empty(); }
};

// The kernel for gradients of type `values` (FLOAT, FLOAT16, BF16: sums are float, rounded once at the end) and indices
// of type `indices` (INT32, INT64); null if there is none.
//
// Without windows, indices are not checked against them: the products' kernels differ for an index outside of its
// window (Ascend950 and some kernels of Atlas A2 leave the gradient out, others add it), and no argmax of a pool is
// such an index. For an index outside of the plane a device would fault or write elsewhere. Here the call fails with
// the code of a device fault and writes nothing for the index; gradInput is then not a valid result.
using ScatterAddKernel = Status (*)(const ScatterAdd& work);
ScatterAddKernel FindScatterAdd(aclDataType values, aclDataType indices);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_
