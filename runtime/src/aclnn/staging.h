// SPDX-License-Identifier: Apache-2.0

// Calls whose operands are in host memory.
#ifndef POOLGRAD_ACLNN_STAGING_H_
#define POOLGRAD_ACLNN_STAGING_H_

#include "aclnn/executor_cache.h"
#include "aclnn/stream_pool.h"

namespace poolgrad::aclnn {

// Runs the call and returns when its results are written. A backend that shares the host's memory works on the operands
// in place. For another backend they are copied to the device and back, after a range check of indices that the call
// reads, which devices use unchecked. Throws std::runtime_error.
void RunOnHostMemory(const Backend& backend, const Call& call, ExecutorCache& executors, StreamResources& resources);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_STAGING_H_
