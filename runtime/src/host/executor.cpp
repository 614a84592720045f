#include "host/executor.h"

#include <memory>

#include "host/device.h"
#include "host/tensor.h"

namespace poolgrad::host {
namespace {

// Deletes an executor at the end of its only run.
struct Consume {
  void operator()(aclOpExecutor* executor) const {
    if (!executor->repeatable) delete executor;
  }
};

}  // namespace

Status RunExecutor(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
  const std::unique_ptr<aclOpExecutor, Consume> running(executor);
  if (workspace_size > 0 && workspace == nullptr) {
    return Fail(ACLNN_ERR_PARAM_NULLPTR, "workspace is null, but workspaceSize is ", workspace_size);
  }
  if (!executor->launch) return {};
  if (Status status = RequireCurrentDevice(); !status.ok()) {
    return {ACLNN_ERR_RUNTIME_ERROR, std::move(status.message)};
  }
  return executor->launch(stream);
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return Boundary(__func__, [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
    if (tensor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "tensor is null");
    // As CANN does for operators composed of several kernels: the tensor itself moves, the index is unused.
    tensor->data = addr;
    return {};
  });
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return Boundary(__func__, [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_INNER_NULLPTR, "executor is null");
    executor->repeatable = true;
    return {};
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return Boundary(__func__, [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_INNER_NULLPTR, "executor is null");
    delete executor;
    return {};
  });
}
