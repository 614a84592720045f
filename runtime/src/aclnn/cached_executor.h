// SPDX-License-Identifier: Apache-2.0

// An executor of aclnn with the tensors and lists that it refers to.
#ifndef POOLGRAD_ACLNN_CACHED_EXECUTOR_H_
#define POOLGRAD_ACLNN_CACHED_EXECUTOR_H_

#include "aclnn/phase_1.h"

namespace poolgrad::aclnn {

struct ExecutorOptions {
  // Turns the switch ACL_OPT_DETERMINISTIC on before phase 1, and leaves it on: the switch belongs to the process, and
  // other threads may rely on it. CANN 9.0 and newer read the switch in every phase 1. CANN 8.5 reads it once, when the
  // process first uses the operator.
  bool deterministic;
  bool repeatable;  // whether to ask for an executor that can run again
};

// The result of phase 1 of one call. A repeatable executor runs again for calls of the same types and sizes, one at a
// time. Any other executor runs once.
class CachedExecutor {
 public:
  // Runs phase 1 of the call. Throws std::runtime_error, and destroys what it created.
  CachedExecutor(const Backend& backend, const Call& call, ExecutorOptions options);

  std::uint64_t workspace_size() const { return executor_.workspace_size; }  // bytes
  bool repeatable() const { return repeatable_; }

  // Runs phase 2 on the operands of `call` and returns before the result is computed: operands and workspace must live
  // until the stream has finished. Throws std::runtime_error; the executor must not be used after that.
  void Enqueue(const Call& call, void* workspace, aclrtStream stream);

 private:
  bool MakeRepeatable();

  const Api& api_;
  const Function& function_;
  Arguments arguments_;
  Executor executor_;  // declared after the arguments, so destroyed before them
  bool repeatable_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_CACHED_EXECUTOR_H_
