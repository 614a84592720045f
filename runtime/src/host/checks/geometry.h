// SPDX-License-Identifier: Apache-2.0

// Checks that the shapes of a gradient's tensors match. CANN makes them where it tiles the operator, in phase 1 or 2,
// and some of them in aclnnMaxPool2dWithIndicesBackward. `code` is the code of a failure.
#ifndef POOLGRAD_HOST_CHECKS_GEOMETRY_H_
#define POOLGRAD_HOST_CHECKS_GEOMETRY_H_

#include <vector>

#include "host/planes.h"
#include "host/status.h"
#include "host/window.h"

namespace poolgrad::host {

// gradOutput has one position for each window over self, and as many planes as self. `windows` are those of the last
// axes; `truncates` as for OutputSize.
Status CheckPooled(const Planes& self, const Planes& grad_output, const std::vector<WindowAxis>& windows,
                   bool ceil_mode, int code, bool truncates = false);

// gradOutput has as many planes as self.
Status CheckPlaneCount(const Planes& self, const Planes& grad_output, int code);

// indices has one index for each position of gradOutput.
Status CheckIndexed(const Planes& grad_output, const Planes& indices, int code);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_GEOMETRY_H_
