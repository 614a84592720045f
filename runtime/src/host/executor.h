// What phase 1 of an operator hands to phase 2.
#ifndef POOLGRAD_HOST_EXECUTOR_H_
#define POOLGRAD_HOST_EXECUTOR_H_

#include <functional>

#include "host/status.h"

// `launch` checks what CANN checks no earlier than phase 2 and puts the work on the stream. It looks at the
// tensors only then, so that aclSetTensorAddr may move them between the runs of a repeatable executor.
struct aclOpExecutor {
  std::function<poolgrad::host::Status(aclrtStream)> launch;  // none where there is nothing to do
  uint64_t workspace_size = 0;                                // bytes
  bool repeatable = false;
};

namespace poolgrad::host {

// Phase 2 of every operator. Consumes the executor, also on failure, unless it is repeatable.
Status RunExecutor(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_EXECUTOR_H_
