// What phase 1 of an operator hands to phase 2.
#ifndef POOLGRAD_HOST_EXECUTOR_H_
#define POOLGRAD_HOST_EXECUTOR_H_

#include <atomic>
#include <functional>

#include "host/hardware.h"
#include "host/pool_call.h"
#include "host/registry.h"

// `prepare` checks what CANN checks no earlier than phase 2 and describes the work. It looks at the tensors only then,
// so that aclSetTensorAddr may move them between the runs of a repeatable executor; work that is queued keeps the
// addresses it was prepared with.
struct aclOpExecutor {
  poolgrad::host::PoolCall call = {};
  std::function<poolgrad::host::Status(poolgrad::host::Work&)> prepare;  // none where there is nothing to do
  uint64_t workspace_size = 0;                                           // bytes
  bool repeatable = false;
  std::atomic<bool> in_call = false;  // in strict mode: phase 2 is running
};

namespace poolgrad::host {

Registry<aclOpExecutor>& Executors();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_EXECUTOR_H_
