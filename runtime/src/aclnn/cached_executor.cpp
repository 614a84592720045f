// SPDX-License-Identifier: Apache-2.0

#include "aclnn/cached_executor.h"

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

Executor CreateExecutor(const Backend& backend, const Call& call, bool deterministic, Arguments& arguments) {
  const Api& api = backend.api();
  if (deterministic) Check(api, "aclrtCtxSetSysParamOpt", api.aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  return RunPhase1(backend, call, arguments);
}

}  // namespace

CachedExecutor::CachedExecutor(const Backend& backend, const Call& call, ExecutorOptions options)
    : api_(backend.api()),
      function_(call.function),
      executor_(CreateExecutor(backend, call, options.deterministic, arguments_)),
      repeatable_(options.repeatable && MakeRepeatable()) {}

bool CachedExecutor::MakeRepeatable() {
  const int code = api_.aclSetAclOpExecutorRepeatable(executor_.handle.get());
  if (code == ACLNN_ERR_INNER) {
    // The code for an executor that cannot be repeated, e.g. one from aclnn's own cache (ACLNN_CACHE_LIMIT).
    Tolerate(api_, code);
    return false;
  }
  Check(api_, "aclSetAclOpExecutorRepeatable", code);
  return true;
}

void CachedExecutor::Enqueue(const Call& call, void* workspace, aclrtStream stream) {
  aclOpExecutor* executor = executor_.handle.get();
  if (repeatable_) {
    for (std::size_t i = 0; i < function_.operands.size(); ++i) {
      Check(api_, "aclSetTensorAddr",
            api_.aclSetTensorAddr(executor, i, arguments_.tensors[i].get(), call.operands[i].data));
    }
  } else {
    executor_.handle.release();  // phase 2 consumes it, also if it fails
  }
  Check(api_, function_.phase_2, function_.execute(workspace, executor_.workspace_size, executor, stream));
}

}  // namespace poolgrad::aclnn
