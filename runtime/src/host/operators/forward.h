// SPDX-License-Identifier: Apache-2.0

// The common part of the max pools: phase 1, and the work of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_FORWARD_H_
#define POOLGRAD_HOST_OPERATORS_FORWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks on the executor's call in their order and returns the first failure. If self or out is
// empty, the executor does nothing and `late_checks`, which CANN runs when it builds the operator, are left out.
Status BuildForward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks,
                    std::initializer_list<PoolCheck> late_checks);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_FORWARD_H_
