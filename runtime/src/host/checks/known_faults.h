// SPDX-License-Identifier: Apache-2.0

// Calls that CANN takes and computes wrong, by its sources of August 2026. In strict mode each is a violation.
// docs/hardware.md lists them.
#ifndef POOLGRAD_HOST_CHECKS_KNOWN_FAULTS_H_
#define POOLGRAD_HOST_CHECKS_KNOWN_FAULTS_H_

#include <array>
#include <vector>

#include "host/planes.h"
#include "host/pool_call.h"
#include "host/window.h"

namespace poolgrad::host {

// The gradient of a max pool whose windows have gaps and share elements. `windows` are those along the call's axes,
// none if they are adaptive, and `spans` those along D, H and W of `grad_input`.
Status CheckGaps(const PoolCall& call, const std::vector<WindowAxis>& windows, const Planes& grad_input,
                 const std::array<AxisSpans, 3>& spans);

// The gradient of an average pool of float16 or bfloat16, by the operator over three axes, with fewer elements than
// cores. `overlap`: whether windows share elements.
Status CheckFewElements(const PoolCall& call, const Planes& grad_output, const Planes& grad_input, bool overlap);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_KNOWN_FAULTS_H_
