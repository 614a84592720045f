#include "aclnn/call.h"

#include <stdexcept>
#include <string>

#include "aclnn/failure.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {
namespace {

TensorHandle MakeTensor(const Api& api, const TensorView& view) {
  // ND on all four: the operators ask that the formats be equal, and every product takes this one.
  aclTensor* tensor =
      api.aclCreateTensor(view.dims, view.rank, view.type, nullptr, 0, ACL_FORMAT_ND, view.dims, view.rank, view.data);
  if (tensor == nullptr) throw std::runtime_error("aclCreateTensor returned null");
  return TensorHandle(tensor, {api.aclDestroyTensor});
}

IntArrayHandle MakeIntArray(const Api& api, const std::array<std::int64_t, 3>& values, std::size_t axes) {
  aclIntArray* array = api.aclCreateIntArray(values.data() + values.size() - axes, axes);
  if (array == nullptr) throw std::runtime_error("aclCreateIntArray returned null");
  return IntArrayHandle(array, {api.aclDestroyIntArray});
}

// The operands as aclnn holds them. The executor keeps pointers to them until phase 2 has returned.
struct Operands {
  Operands(const Api& api, const BackwardCall& call)
      : grad_output(MakeTensor(api, call.grad_output)),
        self(MakeTensor(api, call.self)),
        indices(MakeTensor(api, call.indices)),
        grad_input(MakeTensor(api, call.grad_input)) {}

  TensorHandle grad_output;
  TensorHandle self;
  TensorHandle indices;
  TensorHandle grad_input;
};

// Phase 1 by `plan(workspace_size, executor)`, then phase 2.
template <typename Op, typename Phase1>
void PlanAndExecute(const Backend& backend, const Op& op, StreamResources& resources, Phase1&& plan) {
  const Api& api = backend.api();
  std::uint64_t workspace_size = 0;
  aclOpExecutor* planned = nullptr;
  Check(api, op.phase_1, plan(&workspace_size, &planned));
  ExecutorHandle executor(planned, {api.aclDestroyAclOpExecutor});
  void* workspace = resources.workspace.Reserve(workspace_size);
  // Phase 2 consumes the executor, also where it fails.
  Check(api, op.phase_2, op.execute(workspace, workspace_size, executor.release(), resources.stream.get()));
  Check(api, "aclrtSynchronizeStream", api.aclrtSynchronizeStream(resources.stream.get()));
}

void RunMaxPool(const Backend& backend, const MaxPoolBackward& op, std::size_t axes, const BackwardCall& call,
                StreamResources& resources) {
  const Api& api = backend.api();
  const Operands operands(api, call);
  const IntArrayHandle kernel = MakeIntArray(api, call.window.kernel, axes);
  const IntArrayHandle stride = MakeIntArray(api, call.window.stride, axes);
  const IntArrayHandle padding = MakeIntArray(api, call.window.padding, axes);
  const IntArrayHandle dilation = MakeIntArray(api, call.window.dilation, axes);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.grad_output.get(), operands.self.get(), operands.indices.get(), kernel.get(),
                                 stride.get(), padding.get(), dilation.get(), call.window.ceil_mode,
                                 operands.grad_input.get(), workspace_size, executor);
  });
}

void RunAdaptive(const Backend& backend, const AdaptiveMaxPoolBackward& op, const BackwardCall& call,
                 StreamResources& resources) {
  const Operands operands(backend.api(), call);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.grad_output.get(), operands.self.get(), operands.indices.get(),
                                 operands.grad_input.get(), workspace_size, executor);
  });
}

}  // namespace

void RunBackward(const Backend& backend, const BackwardCall& call, StreamResources& resources) {
  const Api& api = backend.api();
  switch (call.entry) {
    case Entry::kMaxPool3d:
      return RunMaxPool(backend, api.max_pool_3d, 3, call, resources);
    case Entry::kMaxPool2d:
      return RunMaxPool(backend, api.max_pool_2d, 2, call, resources);
    case Entry::kAdaptive3d:
      return RunAdaptive(backend, api.adaptive_3d, call, resources);
    case Entry::kAdaptive2d:
      return RunAdaptive(backend, api.adaptive_2d, call, resources);
  }
}

}  // namespace poolgrad::aclnn
