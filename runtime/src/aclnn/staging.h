// Calls whose operands are in host memory.
#ifndef POOLGRAD_ACLNN_STAGING_H_
#define POOLGRAD_ACLNN_STAGING_H_

#include "aclnn/plan_cache.h"
#include "aclnn/stream_pool.h"

namespace poolgrad::aclnn {

// Runs the call and returns when grad_input is written. A backend that shares the host's memory works on the operands
// in place; for another they are copied to the device and back, after the indices, which a device follows unchecked,
// were found in range. Throws std::runtime_error.
void RunBackwardOnHostMemory(const Backend& backend, const BackwardCall& call, PlanCache& plans,
                             StreamResources& resources);

// The same for a pool; returns when out and indices are written.
void RunForwardOnHostMemory(const Backend& backend, const ForwardCall& call, PlanCache& plans,
                            StreamResources& resources);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STAGING_H_
