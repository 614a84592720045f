// SPDX-License-Identifier: Apache-2.0

// The common part of the max-pool gradients: phase 1, and the work of phase 2.
#ifndef POOLGRAD_HOST_OPERATORS_BACKWARD_H_
#define POOLGRAD_HOST_OPERATORS_BACKWARD_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: runs the checks on the executor's call in their order and returns the first failure. If gradOutput, self or
// indices is empty, the executor does nothing, as in CANN: gradInput keeps its values even if only gradOutput is empty.
// Otherwise checks that the shapes match, and returns that failure here or from phase 2, as the operator's tiling does.
Status BuildBackward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_BACKWARD_H_
