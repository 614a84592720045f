// What the max-pool gradients have in common: phase 1, and the launch of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_BACKWARD_H_
#define POOLGRAD_HOST_OPERATORS_BACKWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks on the executor's call in their order, the first that fails decides. Where a tensor
// is empty there is nothing to run: the executor does nothing, and gradInput stays as it is, also if gradOutput
// alone is empty (as in CANN).
Status PlanBackward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_BACKWARD_H_
