// SPDX-License-Identifier: Apache-2.0

// Executors: the result of phase 1 of an operator, which phase 2 runs.
#ifndef POOLGRAD_HOST_EXECUTOR_H_
#define POOLGRAD_HOST_EXECUTOR_H_

#include <atomic>
#include <functional>

#include "host/hardware.h"
#include "host/pool_call.h"
#include "host/registry.h"

// `prepare` does what CANN does in phase 2: it returns a failure, or fills in the work. It reads the tensors' addresses
// only then, because aclSetTensorAddr may change them between the runs of a repeatable executor. Queued work keeps the
// addresses from its call of `prepare`.
struct aclOpExecutor {
  poolgrad::host::PoolCall call = {};
  std::function<poolgrad::host::Status(poolgrad::host::Work&)> prepare;  // empty if there is nothing to do
  uint64_t workspace_size = 0;                                           // bytes
  bool repeatable = false;
  std::atomic<bool> in_call = false;  // in strict mode: phase 2 is running
};

namespace poolgrad::host {

Registry<aclOpExecutor>& Executors();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_EXECUTOR_H_
