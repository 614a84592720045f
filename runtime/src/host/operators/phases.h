// SPDX-License-Identifier: Apache-2.0

// The two phases that every operator of aclnn has.
#ifndef POOLGRAD_HOST_OPERATORS_PHASES_H_
#define POOLGRAD_HOST_OPERATORS_PHASES_H_

#include <initializer_list>

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Runs the checks in their order. Returns the first failure.
Status RunChecks(const PoolCall& call, std::initializer_list<PoolCheck> checks);

// Phase 1: `build` checks the call and fills in the executor, which the caller gets only if that succeeds. Of the
// call's entry only `api` and `axes` are read; the rest is set here from the current device.
aclnnStatus RunPhase1(const char* function, PoolCall call, Status (*build)(aclOpExecutor&), uint64_t* workspace_size,
                      aclOpExecutor** executor);

// Phase 2. Consumes the executor, also if it fails, unless it is repeatable.
aclnnStatus RunPhase2(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                      aclrtStream stream);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_PHASES_H_
