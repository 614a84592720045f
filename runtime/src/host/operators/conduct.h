// What the products' own kernels are known to do beyond the definition of a gradient.
#ifndef POOLGRAD_HOST_OPERATORS_CONDUCT_H_
#define POOLGRAD_HOST_OPERATORS_CONDUCT_H_

#include <vector>

#include "host/pool_call.h"
#include "host/window.h"

namespace poolgrad::host {

struct Conduct {
  // A gradient whose index is not in its window is left out, as on Ascend950 and by most kernels of Atlas A2.
  bool looks_at_windows = false;
  // Sums of a product and function for which no order is promised run from the last position to the first, so that a
  // caller who counts on an order sees another one. Not in deterministic calls.
  bool reversed = false;
  // aclnnMaxPool2dWithIndicesBackward of Ascend950 with windows of one element and stride 1 is a copy.
  bool copies = false;
  // Atlas A2 and A3 sum overlapping windows of halves in a float copy of gradInput; Ascend950 gathers and needs none.
  uint64_t workspace_size = 0;  // bytes
};

// Of a call that passed the checks of phase 1 and whose tensors are not empty. In lenient mode nothing is added to the
// definition.
Conduct ConductOf(const PoolCall& call, const std::vector<WindowAxis>& windows);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_CONDUCT_H_
