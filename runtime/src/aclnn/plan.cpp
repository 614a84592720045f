#include "aclnn/plan.h"

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

template <typename Call>
Planned Prepare(const Api& api, const Call& call, bool deterministic, Arguments& arguments) {
  if (deterministic) Check(api, "aclrtCtxSetSysParamOpt", api.aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  return RunPhase1(api, call, arguments);
}

}  // namespace

template <typename Call>
Plan::Plan(const Api& api, const Call& call, PlanOptions options)
    : api_(api),
      function_(FunctionOf(api, call)),
      planned_(Prepare(api, call, options.deterministic, arguments_)),
      repeatable_(options.repeatable && MakeRepeatable()) {}

template Plan::Plan(const Api& api, const ForwardCall& call, PlanOptions options);
template Plan::Plan(const Api& api, const BackwardCall& call, PlanOptions options);

bool Plan::MakeRepeatable() {
  const int code = api_.aclSetAclOpExecutorRepeatable(planned_.executor.get());
  if (code == ACLNN_ERR_INNER) {
    // So it answers for an executor that cannot be repeated, e.g. one out of aclnn's own cache (ACLNN_CACHE_LIMIT).
    Tolerate(api_, code);
    return false;
  }
  Check(api_, "aclSetAclOpExecutorRepeatable", code);
  return true;
}

void Plan::Enqueue(const Operands& operands, void* workspace, aclrtStream stream) {
  aclOpExecutor* executor = planned_.executor.get();
  if (repeatable_) {
    for (std::size_t i = 0; i < operands.count; ++i) {
      Check(api_, "aclSetTensorAddr",
            api_.aclSetTensorAddr(executor, i, arguments_.tensors[i].get(), operands.views[i].data));
    }
  } else {
    planned_.executor.release();  // phase 2 consumes it, also where it fails
  }
  Check(api_, function_.phase_2, function_.execute(workspace, planned_.workspace_size, executor, stream));
}

}  // namespace poolgrad::aclnn
