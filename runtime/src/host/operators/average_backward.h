// SPDX-License-Identifier: Apache-2.0

// The common part of the gradients of average pools: phase 1, and the work of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_AVERAGE_BACKWARD_H_
#define POOLGRAD_HOST_OPERATORS_AVERAGE_BACKWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks on the executor's call in their order and returns the first failure. If gradOutput, self or
// the result is empty, the executor does nothing, as in CANN: the result keeps its values even if only gradOutput is
// empty. Otherwise runs the late checks, and checks that the shapes match; aclnnAvgPool2dBackward of Atlas A2 and A3
// does not where it runs the operator over three axes: there phase 2 fails with the code of a device fault.
Status BuildAverageBackward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks,
                            std::initializer_list<PoolCheck> late_checks = {});

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_AVERAGE_BACKWARD_H_
