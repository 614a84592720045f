// The kernel of every max-pool gradient.
#ifndef POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_
#define POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_

#include "host/planes.h"
#include "host/status.h"
#include "host/window.h"

namespace poolgrad::host {

// gradInput = 0; then for each plane (n, c) and each position o of gradOutput in row-major order
// gradInput[n, c, indices[n, c, o]] += gradOutput[n, c, o].
struct ScatterAdd {
  Planes grad_output;
  Planes indices;
  Planes grad_input;
  // Where given, a gradient whose index does not lie in its window is left out.
  std::array<AxisSpans, 3> windows = {};
  bool reversed = false;  // from the last position to the first; only with windows

  bool has_windows() const { return !windows[0].spans.empty(); }
};

// The kernel for gradients of type `values` (FLOAT, FLOAT16, BF16: sums are float, rounded once at the end)
// and indices of type `indices` (INT32, INT64); null if there is none.
//
// Without windows, indices are trusted to lie in them: the real kernels differ in what they do with others (Ascend950
// and some of Atlas A2 leave such a gradient out, others add it), and no recorded argmax is one. An index
// outside of the plane is no argmax at all; the device would fault on it or write elsewhere. Here nothing is
// written for it and the call fails, with the code of a device fault; gradInput then holds no result.
using ScatterAddKernel = Status (*)(const ScatterAdd& work);
ScatterAddKernel FindScatterAdd(aclDataType values, aclDataType indices);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_SCATTER_ADD_H_
