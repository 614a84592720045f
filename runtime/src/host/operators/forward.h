// What the max pools have in common: phase 1, and the launch of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_FORWARD_H_
#define POOLGRAD_HOST_OPERATORS_FORWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks on the executor's call in their order, the first that fails decides. Where self or out
// is empty there is nothing to run, and what CANN finds only when it builds the operator, `late_checks`, is not
// checked.
Status PlanForward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks,
                   std::initializer_list<PoolCheck> late_checks);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_FORWARD_H_
