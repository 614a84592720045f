// Where the operands of a call lie: onnxruntime's tensors are in host memory, a device wants them in its own.
#ifndef POOLGRAD_ACLNN_STAGING_H_
#define POOLGRAD_ACLNN_STAGING_H_

#include "aclnn/plan_cache.h"

namespace poolgrad::aclnn {

// Runs a call whose operands are in host memory, and returns when grad_input is written. The host backend
// works on them in place; for a device they are copied there and back, after the indices, which a device
// follows unchecked, were found in range. Throws std::runtime_error.
void RunBackwardOnHostMemory(const Backend& backend, const BackwardCall& call, PlanCache& plans,
                             StreamResources& resources);

// The same for a pool; returns when out and indices are written.
void RunForwardOnHostMemory(const Backend& backend, const ForwardCall& call, PlanCache& plans,
                            StreamResources& resources);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STAGING_H_
