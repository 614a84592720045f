// What the max-pool gradients have in common: phase 1, and the launch of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_BACKWARD_H_
#define POOLGRAD_HOST_OPERATORS_BACKWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks in their order, the first that fails decides, and makes the executor. Where a tensor
// is empty there is nothing to run: the executor does nothing, and gradInput stays as it is, also if gradOutput
// alone is empty (as in CANN).
Status PlanBackward(const PoolCall& call, std::initializer_list<PoolCheck> checks, uint64_t* workspace_size,
                    aclOpExecutor** executor);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_BACKWARD_H_
