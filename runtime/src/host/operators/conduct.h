// SPDX-License-Identifier: Apache-2.0

// The known behaviour of the products' kernels beyond the definition of a gradient.
#ifndef POOLGRAD_HOST_OPERATORS_CONDUCT_H_
#define POOLGRAD_HOST_OPERATORS_CONDUCT_H_

#include <vector>

#include "host/pool_call.h"
#include "host/window.h"

namespace poolgrad::host {

struct Conduct {
  // A gradient whose index is not in its window is left out, as on Ascend950 and by most kernels of Atlas A2.
  bool looks_at_windows = false;
  // Sums run from the last position of gradOutput to the first, as in the kernel of Atlas A2 and A3 for most windows.
  // In strict mode those of overlapping windows, for which no product promises an order, run the other way, so that a
  // caller that relies on an order gets another result. Not in deterministic calls.
  bool reversed = false;
  // aclnnMaxPool2dWithIndicesBackward of Ascend950 with windows of one element and stride 1 is a copy.
  bool copies = false;
  // Atlas A2 and A3 sum overlapping windows of 16-bit floats in a float copy of gradInput; Ascend950 needs none.
  uint64_t workspace_size = 0;  // bytes
};

// Whether the operator of a gradient is tiled in phase 1, which then refuses shapes that do not match; else phase 2
// does. An adaptive gradient is. Atlas A2 and A3 run adaptive windows that do not overlap as those of a fixed size.
bool IsTiledInPhase1(const PoolCall& call);

// Whether two windows of the call share elements; `windows` are those along its axes, none if they are adaptive. No
// tensor is empty.
bool WindowsOverlap(const PoolCall& call, const std::vector<WindowAxis>& windows);

// The size in bytes of the workspace for a float copy of the tensor.
uint64_t FloatCopySize(const aclTensor& tensor);

// The behaviour for a call that passed the checks of phase 1 and has no empty tensors. In lenient mode only the
// definition and the order of its sums apply.
Conduct ConductOf(const PoolCall& call, const std::vector<WindowAxis>& windows);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_CONDUCT_H_
