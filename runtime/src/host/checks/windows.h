// What phase 1 checks of the lists that describe pooling windows, one check a function. Each answers
// ACLNN_ERR_PARAM_INVALID except where it says otherwise. A list has one value for all spatial axes of the
// entry or one for each; stride may be empty and is then kernelSize.
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
