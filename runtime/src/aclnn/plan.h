// What phase 1 of a call made, ready for phase 2.
#ifndef POOLGRAD_ACLNN_PLAN_H_
#define POOLGRAD_ACLNN_PLAN_H_

#include "aclnn/phase_1.h"

namespace poolgrad::aclnn {

struct PlanOptions {
  // Phase 1 samples the switch ACL_OPT_DETERMINISTIC, which is one for the process: every phase 1 since CANN 9.0, in
  // 8.5 only that of the first use of an operator in the process. Where this asks for it, it is turned on before, and
  // left on: turning it off would race with other threads that rely on it.
  bool deterministic;
  bool repeatable;  // whether to ask for an executor that can run again
};

// The executor of one call, with the tensors and lists that it keeps pointers to. If it is repeatable, it can run
// again for calls of the same types and sizes, one at a time; else it runs once.
class Plan {
 public:
  // Runs phase 1 of a ForwardCall or BackwardCall. Throws std::runtime_error, with nothing left behind.
  template <typename Call>
  Plan(const Api& api, const Call& call, PlanOptions options);

  std::uint64_t workspace_size() const { return planned_.workspace_size; }  // bytes
  bool repeatable() const { return repeatable_; }

  // Runs phase 2 on the memory of `operands`, and returns before anything is computed: operands and workspace have
  // to live until the stream is done. Throws std::runtime_error; the plan must not be used after that.
  void Enqueue(const Operands& operands, void* workspace, aclrtStream stream);

 private:
  bool MakeRepeatable();

  const Api& api_;
  const Function& function_;
  Arguments arguments_;
  Planned planned_;  // after the arguments, so destroyed before them
  bool repeatable_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PLAN_H_
