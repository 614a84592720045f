// SPDX-License-Identifier: Apache-2.0

// The functions of executors, except the two phases of the operators.
#include "host/executor.h"

#include <algorithm>

#include "host/boundary.h"
#include "host/tensor.h"

namespace poolgrad::host {
namespace {

// As in CANN for operators composed of several kernels: sets the address of the tensor itself and ignores the index.
Status SetTensorAddress(const aclOpExecutor& executor, aclTensor& tensor, void* address) {
  const auto tensors = executor.call.tensors();
  if (IsStrict() && std::find(tensors.begin(), tensors.end(), &tensor) == tensors.end()) {
    Record(Rule::kForeignTensor, "the tensor is not one that this executor was made for");
  }
  tensor.data = address;
  return {};
}

}  // namespace

Registry<aclOpExecutor>& Executors() {
  // Never destroyed: calls may come at exit.
  static auto* const executors = new Registry<aclOpExecutor>(Kind::kExecutor);
  return *executors;
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  const auto body = [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
    if (tensor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "tensor is null");
    if (Status status = Executors().Check(executor, ACLNN_ERR_INNER); !status.ok()) return status;
    if (Status status = Tensors().Check(tensor, ACLNN_ERR_INNER); !status.ok()) return status;
    return SetTensorAddress(*executor, *tensor, addr);
  };
  return Boundary(__func__, {In("executor", executor), In("index", index), In("tensor", tensor), In("addr", addr)},
                  body);
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return Boundary(__func__, {In("executor", executor)}, [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_INNER_NULLPTR, "executor is null");
    if (Status status = Executors().Check(executor, ACLNN_ERR_INNER); !status.ok()) return status;
    executor->repeatable = true;
    return {};
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return Boundary(__func__, {In("executor", executor)}, [&]() -> Status {
    if (executor == nullptr) return Fail(ACLNN_ERR_INNER_NULLPTR, "executor is null");
    return Executors().Remove(executor, ACLNN_ERR_INNER);
  });
}
