// SPDX-License-Identifier: Apache-2.0

#include "host/operators/phases.h"

#include <memory>
#include <utility>

#include "host/boundary.h"
#include "host/device.h"

namespace poolgrad::host {
namespace {

Status CheckAlive(const PoolCall& call) {
  for (const aclTensor* tensor : call.tensors()) {
    if (tensor == nullptr) continue;
    if (Status status = Tensors().Check(tensor, ACLNN_ERR_INNER); !status.ok()) return status;
  }
  for (const aclIntArray* list : call.lists()) {
    if (list == nullptr) continue;
    if (Status status = IntArrays().Check(list, ACLNN_ERR_INNER); !status.ok()) return status;
  }
  return {};
}

// The executor refers to the caller's tensors and lists.
Status CheckReferences(const PoolCall& call) {
  for (const aclTensor* tensor : call.tensors()) {
    if (tensor == nullptr || Tensors().IsAlive(tensor)) continue;
    return Violation(Rule::kExecutorReferences, ACLNN_ERR_INNER, "a tensor of the call was destroyed before phase 2");
  }
  for (const aclIntArray* list : call.lists()) {
    if (list == nullptr || IntArrays().IsAlive(list)) continue;
    return Violation(Rule::kExecutorReferences, ACLNN_ERR_INNER, "a list of the call was destroyed before phase 2");
  }
  return {};
}

// Claims an executor for one call of phase 2, and destroys it after the call unless it is repeatable. Outside of
// Boundary: a call that is made to fail consumes its executor like any other call.
class Claim {
 public:
  Claim(const char* function, aclOpExecutor* executor) : function_(function) {
    RunGuarded(function, [&] {
      if (executor == nullptr || !Executors().IsAlive(executor)) return;
      if (IsStrict() && executor->in_call.exchange(true)) return;
      executor_ = executor;
    });
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  ~Claim() {
    if (executor_ == nullptr) return;
    executor_->in_call = false;
    // If there is no memory to remove it, it stays.
    if (!executor_->repeatable) RunGuarded(function_, [&] { Executors().Remove(executor_, ACLNN_ERR_INNER); });
  }

  bool succeeded() const { return executor_ != nullptr; }

 private:
  const char* function_;
  aclOpExecutor* executor_ = nullptr;
};

Status WhyNotClaimed(const aclOpExecutor* executor) {
  if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
  if (Status status = Executors().Check(executor, ACLNN_ERR_INNER); !status.ok()) return status;
  return Violation(Rule::kExecutorShared, ACLNN_ERR_INNER, "another thread is in phase 2 with this executor");
}

Status CheckWorkspace(void* workspace, uint64_t size, const aclOpExecutor& executor) {
  if (size > 0 && workspace == nullptr) {
    return Fail(ACLNN_ERR_PARAM_NULLPTR, "workspace is null, but workspaceSize is ", size);
  }
  if (size >= executor.workspace_size) return {};
  return Violation(Rule::kWorkspace, ACLNN_ERR_PARAM_INVALID, "workspaceSize is ", size, "; phase 1 said ",
                   executor.workspace_size);
}

Status Launch(void* workspace, uint64_t workspace_size, const aclOpExecutor& executor, aclrtStream stream) {
  if (Status status = CheckWorkspace(workspace, workspace_size, executor); !status.ok()) return status;
  if (Status status = CheckReferences(executor.call); !status.ok()) return status;
  if (!executor.prepare) return {};
  if (Status status = RequireCurrentDevice(); !status.ok()) {
    return {ACLNN_ERR_RUNTIME_ERROR, std::move(status.message)};
  }
  Work work;
  if (Status status = executor.prepare(work); !status.ok()) return status;
  if (executor.workspace_size > 0) {
    work.uses.push_back({"workspace", workspace, executor.workspace_size, Place::kDevice, true});
  }
  work.is_kernel = true;
  return TheHardware().Submit(stream, std::move(work));
}

}  // namespace

Status RunChecks(const PoolCall& call, std::initializer_list<PoolCheck> checks) {
  for (const PoolCheck check : checks) {
    if (Status status = check(call); !status.ok()) return status;
  }
  return {};
}

aclnnStatus RunPhase1(const char* function, PoolCall call, Status (*build)(aclOpExecutor&), uint64_t* workspace_size,
                      aclOpExecutor** executor) {
  const auto body = [&]() -> Status {
    if (workspace_size == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "workspaceSize is null");
    if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
    if (Status status = CheckAlive(call); !status.ok()) return status;
    const DeviceState device = SampleDevice();
    call.entry.product = device.product;
    call.entry.deterministic = device.deterministic;
    auto built = std::make_unique<aclOpExecutor>();
    built->call = call;
    if (Status status = build(*built); !status.ok()) return status;
    *executor = Executors().Add(std::move(built));
    *workspace_size = (*executor)->workspace_size;
    return {};
  };
  return Boundary(function,
                  {In("gradOutput", call.grad_output), In("self", call.self), In("indices", call.indices),
                   In("kernelSize", call.kernel_size), In("stride", call.stride), In("padding", call.padding),
                   In("dilation", call.dilation), In("ceilMode", call.ceil_mode), In("outputSize", call.output_size),
                   In("countIncludePad", call.count_include_pad), In("divisorOverride", call.divisor_override),
                   In("cubeMathType", call.cube_math_type), In("gradInput", call.grad_input), In("out", call.out),
                   Out("deterministic", &call.entry.deterministic), Out("workspaceSize", workspace_size),
                   Out("executor", executor)},
                  body, ACLNN_ERR_INNER_CREATE_EXECUTOR);
}

aclnnStatus RunPhase2(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                      aclrtStream stream) {
  const Claim claim(function, executor);
  return Boundary(
      function,
      {In("workspace", workspace), In("workspaceSize", workspace_size), In("executor", executor), In("stream", stream)},
      [&] {
        return claim.succeeded() ? Launch(workspace, workspace_size, *executor, stream) : WhyNotClaimed(executor);
      });
}

}  // namespace poolgrad::host
