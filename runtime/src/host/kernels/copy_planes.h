// SPDX-License-Identifier: Apache-2.0

// The kernel of a gradient that is gradOutput itself.
#ifndef POOLGRAD_HOST_KERNELS_COPY_PLANES_H_
#define POOLGRAD_HOST_KERNELS_COPY_PLANES_H_

#include "host/kernels/scatter_add.h"

namespace poolgrad::host {

// gradInput = gradOutput, bit for bit, whatever the indices are; the planes have equal dims.
Status CopyFloatPlanes(const ScatterAdd& work);
Status CopyHalfPlanes(const ScatterAdd& work);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_COPY_PLANES_H_
