#include "aclnn/call.h"

#include <stdexcept>
#include <string>

#include "aclnn/failure.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {
namespace {

TensorHandle MakeTensor(const Api& api, const TensorView& view) {
  // The operators ask that the formats of a call be equal. These two every product takes; aclnnAdaptiveMaxPool3d
  // refuses ND on Atlas A2 and A3.
  const aclFormat format = view.rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_NCHW;
  aclTensor* tensor =
      api.aclCreateTensor(view.dims, view.rank, view.type, nullptr, 0, format, view.dims, view.rank, view.data);
  if (tensor == nullptr) throw std::runtime_error("aclCreateTensor returned null");
  return TensorHandle(tensor, {api.aclDestroyTensor});
}

IntArrayHandle MakeIntArray(const Api& api, const std::array<std::int64_t, 3>& values, std::size_t axes) {
  aclIntArray* array = api.aclCreateIntArray(values.data() + values.size() - axes, axes);
  if (array == nullptr) throw std::runtime_error("aclCreateIntArray returned null");
  return IntArrayHandle(array, {api.aclDestroyIntArray});
}

// The operands as aclnn holds them. The executor keeps pointers to them until phase 2 has returned.
struct ForwardOperands {
  ForwardOperands(const Api& api, const ForwardCall& call)
      : self(MakeTensor(api, call.self)), out(MakeTensor(api, call.out)), indices(MakeTensor(api, call.indices)) {}

  TensorHandle self;
  TensorHandle out;
  TensorHandle indices;
};

struct BackwardOperands {
  BackwardOperands(const Api& api, const BackwardCall& call)
      : grad_output(MakeTensor(api, call.grad_output)),
        self(MakeTensor(api, call.self)),
        indices(MakeTensor(api, call.indices)),
        grad_input(MakeTensor(api, call.grad_input)) {}

  TensorHandle grad_output;
  TensorHandle self;
  TensorHandle indices;
  TensorHandle grad_input;
};

struct WindowLists {
  WindowLists(const Api& api, const Window& window, std::size_t axes)
      : kernel(MakeIntArray(api, window.kernel, axes)),
        stride(MakeIntArray(api, window.stride, axes)),
        padding(MakeIntArray(api, window.padding, axes)),
        dilation(MakeIntArray(api, window.dilation, axes)) {}

  IntArrayHandle kernel;
  IntArrayHandle stride;
  IntArrayHandle padding;
  IntArrayHandle dilation;
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

void RunMaxPool(const Backend& backend, const MaxPool& op, std::size_t axes, const ForwardCall& call,
                StreamResources& resources) {
  const ForwardOperands operands(backend.api(), call);
  const WindowLists lists(backend.api(), call.window, axes);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.self.get(), lists.kernel.get(), lists.stride.get(), lists.padding.get(),
                                 lists.dilation.get(), call.window.ceil_mode, operands.out.get(),
                                 operands.indices.get(), workspace_size, executor);
  });
}

void RunAdaptive(const Backend& backend, const AdaptiveMaxPool& op, std::size_t axes, const ForwardCall& call,
                 StreamResources& resources) {
  const ForwardOperands operands(backend.api(), call);
  const IntArrayHandle output_size = MakeIntArray(backend.api(), call.output_size, axes);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.self.get(), output_size.get(), operands.out.get(), operands.indices.get(),
                                 workspace_size, executor);
  });
}

void RunMaxPoolBackward(const Backend& backend, const MaxPoolBackward& op, std::size_t axes, const BackwardCall& call,
                        StreamResources& resources) {
  const BackwardOperands operands(backend.api(), call);
  const WindowLists lists(backend.api(), call.window, axes);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.grad_output.get(), operands.self.get(), operands.indices.get(),
                                 lists.kernel.get(), lists.stride.get(), lists.padding.get(), lists.dilation.get(),
                                 call.window.ceil_mode, operands.grad_input.get(), workspace_size, executor);
  });
}

void RunAdaptiveBackward(const Backend& backend, const AdaptiveMaxPoolBackward& op, const BackwardCall& call,
                         StreamResources& resources) {
  const BackwardOperands operands(backend.api(), call);
  PlanAndExecute(backend, op, resources, [&](std::uint64_t* workspace_size, aclOpExecutor** executor) {
    return op.get_workspace_size(operands.grad_output.get(), operands.self.get(), operands.indices.get(),
                                 operands.grad_input.get(), workspace_size, executor);
  });
}

}  // namespace

void RunForward(const Backend& backend, const ForwardCall& call, StreamResources& resources) {
  const Api& api = backend.api();
  switch (call.entry) {
    case Entry::kMaxPool3d:
      return RunMaxPool(backend, api.max_pool_3d, 3, call, resources);
    case Entry::kMaxPool2d:
      return RunMaxPool(backend, api.max_pool_2d, 2, call, resources);
    case Entry::kAdaptive3d:
      return RunAdaptive(backend, api.adaptive_3d, 3, call, resources);
    case Entry::kAdaptive2d:
      return RunAdaptive(backend, api.adaptive_2d, 2, call, resources);
  }
}

void RunBackward(const Backend& backend, const BackwardCall& call, StreamResources& resources) {
  const Api& api = backend.api();
  switch (call.entry) {
    case Entry::kMaxPool3d:
      return RunMaxPoolBackward(backend, api.max_pool_3d_backward, 3, call, resources);
    case Entry::kMaxPool2d:
      return RunMaxPoolBackward(backend, api.max_pool_2d_backward, 2, call, resources);
    case Entry::kAdaptive3d:
      return RunAdaptiveBackward(backend, api.adaptive_3d_backward, call, resources);
    case Entry::kAdaptive2d:
      return RunAdaptiveBackward(backend, api.adaptive_2d_backward, call, resources);
  }
}

}  // namespace poolgrad::aclnn
