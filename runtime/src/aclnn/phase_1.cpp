// SPDX-License-Identifier: Apache-2.0

#include "aclnn/phase_1.h"

#include <stdexcept>
#include <string>

#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

// CANN's page of aclCreateTensor does not call strides optional, so a contiguous tensor has them too.
TensorHandle MakeTensor(const Backend& backend, const TensorView& view) {
  const Api& api = backend.api();
  const std::array<std::int64_t, kMaxRank> strides = ContiguousStrides(view);
  // The operators require the same format for all tensors of a call. Every product accepts these two;
  // aclnnAdaptiveMaxPool3d refuses ND on Atlas A2 and A3.
  const aclFormat format = view.rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_NCHW;
  aclTensor* tensor =
      api.aclCreateTensor(view.dims, view.rank, view.type, strides.data(), 0, format, view.dims, view.rank, view.data);
  CheckCreated(api, "aclCreateTensor", tensor);
  return TensorHandle(tensor, Released(backend, api.aclDestroyTensor));
}

IntArrayHandle MakeIntArray(const Backend& backend, const Axes& values, std::size_t axes) {
  const Api& api = backend.api();
  aclIntArray* array = api.aclCreateIntArray(values.data() + values.size() - axes, axes);
  CheckCreated(api, "aclCreateIntArray", array);
  return IntArrayHandle(array, Released(backend, api.aclDestroyIntArray));
}

void MakeTensors(const Backend& backend, const Operands& operands, Arguments& arguments) {
  for (std::size_t i = 0; i < operands.count; ++i) arguments.tensors[i] = MakeTensor(backend, operands.views[i]);
}

void MakeWindow(const Backend& backend, const Window& window, std::size_t axes, Arguments& arguments) {
  const Axes* const lists[] = {&window.kernel, &window.stride, &window.padding, &window.dilation};
  for (std::size_t i = 0; i < arguments.lists.size(); ++i) arguments.lists[i] = MakeIntArray(backend, *lists[i], axes);
}

struct Result {
  std::uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
};

int CallMaxPool(const MaxPool& op, const Arguments& arguments, bool ceil_mode, Result& result) {
  const auto& tensors = arguments.tensors;
  const auto& lists = arguments.lists;
  return op.get_workspace_size(tensors[0].get(), lists[0].get(), lists[1].get(), lists[2].get(), lists[3].get(),
                               ceil_mode, tensors[1].get(), tensors[2].get(), &result.workspace_size, &result.executor);
}

int CallAdaptive(const AdaptiveMaxPool& op, const Arguments& arguments, Result& result) {
  const auto& tensors = arguments.tensors;
  return op.get_workspace_size(tensors[0].get(), arguments.lists[0].get(), tensors[1].get(), tensors[2].get(),
                               &result.workspace_size, &result.executor);
}

int CallMaxPoolBackward(const MaxPoolBackward& op, const Arguments& arguments, bool ceil_mode, Result& result) {
  const auto& tensors = arguments.tensors;
  const auto& lists = arguments.lists;
  return op.get_workspace_size(tensors[0].get(), tensors[1].get(), tensors[2].get(), lists[0].get(), lists[1].get(),
                               lists[2].get(), lists[3].get(), ceil_mode, tensors[3].get(), &result.workspace_size,
                               &result.executor);
}

int CallAdaptiveBackward(const AdaptiveMaxPoolBackward& op, const Arguments& arguments, Result& result) {
  const auto& tensors = arguments.tensors;
  return op.get_workspace_size(tensors[0].get(), tensors[1].get(), tensors[2].get(), tensors[3].get(),
                               &result.workspace_size, &result.executor);
}

int CallPhase1(const Backend& backend, const ForwardCall& call, Arguments& arguments, Result& result) {
  const Api& api = backend.api();
  const std::size_t axes = AxesOf(call.entry);
  if (IsAdaptive(call.entry)) {
    arguments.lists[0] = MakeIntArray(backend, call.output_size, axes);
    return CallAdaptive(axes == 3 ? api.adaptive_3d : api.adaptive_2d, arguments, result);
  }
  MakeWindow(backend, call.window, axes, arguments);
  return CallMaxPool(axes == 3 ? api.max_pool_3d : api.max_pool_2d, arguments, call.window.ceil_mode, result);
}

int CallPhase1(const Backend& backend, const BackwardCall& call, Arguments& arguments, Result& result) {
  const Api& api = backend.api();
  const std::size_t axes = AxesOf(call.entry);
  if (IsAdaptive(call.entry)) {
    return CallAdaptiveBackward(axes == 3 ? api.adaptive_3d_backward : api.adaptive_2d_backward, arguments, result);
  }
  MakeWindow(backend, call.window, axes, arguments);
  return CallMaxPoolBackward(axes == 3 ? api.max_pool_3d_backward : api.max_pool_2d_backward, arguments,
                             call.window.ceil_mode, result);
}

}  // namespace

template <typename Call>
Executor RunPhase1(const Backend& backend, const Call& call, Arguments& arguments) {
  const Api& api = backend.api();
  const Function& function = FunctionOf(api, call);
  if (!function.found()) throw std::runtime_error(std::string("no library has ") + function.phase_2);
  MakeTensors(backend, OperandsOf(call), arguments);
  Result result;
  Check(api, function.phase_1, CallPhase1(backend, call, arguments, result));
  return {result.workspace_size, ExecutorHandle(result.executor, Released(backend, api.aclDestroyAclOpExecutor))};
}

template Executor RunPhase1(const Backend& backend, const ForwardCall& call, Arguments& arguments);
template Executor RunPhase1(const Backend& backend, const BackwardCall& call, Arguments& arguments);

}  // namespace poolgrad::aclnn
