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
  const std::int64_t* dims = view.dims.data();
  // The operators require the same format for all tensors of a call. Every product accepts these two;
  // aclnnAdaptiveMaxPool3d refuses ND on Atlas A2 and A3, and aclnnAvgPool2dBackward takes NCHW and NCL alone.
  const aclFormat format = view.rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_NCHW;
  aclTensor* tensor =
      api.aclCreateTensor(dims, view.rank, view.type, strides.data(), 0, format, dims, view.rank, view.data);
  CheckCreated(api, "aclCreateTensor", tensor);
  return TensorHandle(tensor, Released(backend, api.aclDestroyTensor));
}

IntArrayHandle MakeIntArray(const Backend& backend, const Axes& values, std::size_t axes) {
  const Api& api = backend.api();
  aclIntArray* array = api.aclCreateIntArray(values.data() + values.size() - axes, axes);
  CheckCreated(api, "aclCreateIntArray", array);
  return IntArrayHandle(array, Released(backend, api.aclDestroyIntArray));
}

}  // namespace

Executor RunPhase1(const Backend& backend, const Call& call, Arguments& arguments) {
  const Api& api = backend.api();
  const Function& function = call.function;
  if (!function.found()) throw std::runtime_error(std::string("no library has ") + function.phase_2);
  for (std::size_t i = 0; i < function.operands.size(); ++i) {
    arguments.tensors[i] = MakeTensor(backend, call.operands[i]);
  }
  IntArrayHandle* array = arguments.lists.data();
  for (const auto list : function.lists) *array++ = MakeIntArray(backend, call.window.*list, function.axes);
  std::uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  Check(api, function.phase_1,
        function.call_phase_1(function.get_workspace_size, arguments, call.window, &workspace_size, &executor));
  return {workspace_size, ExecutorHandle(executor, Released(backend, api.aclDestroyAclOpExecutor))};
}

}  // namespace poolgrad::aclnn
