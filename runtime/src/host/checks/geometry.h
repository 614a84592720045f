// How the shapes of a gradient's tensors have to fit together: what CANN finds in phase 2, when it infers
// shapes and tiles, and aclnnMaxPool2dWithIndicesBackward in part in phase 1.
#ifndef POOLGRAD_HOST_CHECKS_GEOMETRY_H_
#define POOLGRAD_HOST_CHECKS_GEOMETRY_H_

#include <vector>

#include "host/planes.h"
#include "host/status.h"
#include "host/window.h"

namespace poolgrad::host {

// gradOutput has one position for each window over self, in as many planes. The windows are those of the
// last axes; `code` is the answer otherwise.
Status CheckPooled(const Planes& self, const Planes& grad_output, const std::vector<WindowAxis>& windows,
                   bool ceil_mode, int code);

// gradOutput has as many planes as self, each of no more positions along any axis.
Status CheckAdaptivelyPooled(const Planes& self, const Planes& grad_output, int code);

// indices has one index for each position of gradOutput.
Status CheckIndexed(const Planes& grad_output, const Planes& indices, int code);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_GEOMETRY_H_
