// SPDX-License-Identifier: Apache-2.0

// The checks of phase 1 of the lists that describe pooling windows, one per function. A failure has the code
// ACLNN_ERR_PARAM_INVALID unless stated otherwise. A list has one value for all spatial axes of the entry, or one per
// axis. If stride is empty, the strides are kernelSize.
#ifndef POOLGRAD_HOST_CHECKS_WINDOWS_H_
#define POOLGRAD_HOST_CHECKS_WINDOWS_H_

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// ACLNN_ERR_PARAM_NULLPTR for a null list.
Status CheckListsGiven(const PoolCall& call);

Status CheckKernelLength(const PoolCall& call);
Status CheckStrideLength(const PoolCall& call);
Status CheckPaddingLength(const PoolCall& call);
Status CheckDilationLength(const PoolCall& call);

Status CheckKernelValues(const PoolCall& call);    // > 0
Status CheckStrideValues(const PoolCall& call);    // > 0
Status CheckPaddingValues(const PoolCall& call);   // 0 to half the kernel; CANN's documents say the kernel
Status CheckDilationValues(const PoolCall& call);  // > 0; CANN's documents say 1
Status CheckDilationIsOneOutsideAscend950(const PoolCall& call);

// gradOutput has the shape that the windows give for self.
Status CheckGradOutputShape(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_WINDOWS_H_
