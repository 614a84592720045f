// The two phases that every operator of aclnn has.
#ifndef POOLGRAD_HOST_OPERATORS_PHASES_H_
#define POOLGRAD_HOST_OPERATORS_PHASES_H_

#include "host/executor.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// Phase 1: `plan` checks the call and fills in the executor, which is handed over only if that succeeds. The call's
// entry says no more than which function of how many axes it is; the rest is sampled here.
aclnnStatus RunPhase1(const char* function, PoolCall call, Status (*plan)(aclOpExecutor&), uint64_t* workspace_size,
                      aclOpExecutor** executor);

// Phase 2. Consumes the executor, also on failure, unless it is repeatable.
aclnnStatus RunPhase2(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                      aclrtStream stream);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_PHASES_H_
