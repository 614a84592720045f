// aclnnAdaptiveMaxPool2d and aclnnAdaptiveMaxPool3d.

#include "host/checks/pools.h"
#include "host/checks/tensors.h"
#include "host/device.h"
#include "host/operators/forward.h"

namespace poolgrad::host {
namespace {

// All in the order of CANN's code.
constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool2dChecks = {
    CheckPoolTensorsGiven,    CheckOutputSizeGiven, CheckSelfDtype,    CheckOutDtype,         CheckIndicesDtype,
    CheckIndicesHaveOutShape, CheckPoolRanks,       CheckAxesNotEmpty, CheckOutputSizeLength, CheckOutputSizeValues,
};

constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool3dChecks = {
    CheckPoolTensorsGiven,
    CheckOutputSizeGiven,
    CheckSelfDtype,
    CheckOutDtype,
    CheckIndicesDtype,
    CheckAdaptive3dFormats,
    CheckPoolRanks,
    CheckInt32PlaneSize,
    CheckOutputSizeLength,
    CheckOutputSizeValues,
    CheckIndicesHaveOutShapeAtFirst,
};

constexpr std::initializer_list<PoolCheck> kLateChecks = {CheckAdaptiveOutShape};

Status Plan(Api api, int64_t axes, const aclTensor* self, const aclIntArray* output_size, const aclTensor* out,
            const aclTensor* indices, std::initializer_list<PoolCheck> checks, uint64_t* workspace_size,
            aclOpExecutor** executor) {
  PoolCall call{{api, axes, CurrentProduct()}, nullptr, self, indices};
  call.output_size = output_size;
  call.out = out;
  return PlanForward(call, checks, kLateChecks, workspace_size, executor);
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnAdaptiveMaxPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                   aclTensor* outputOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  const auto body = [&] {
    return Plan(Api::kAdaptiveMaxPool2d, 2, self, outputSize, outputOut, indicesOut, kAdaptiveMaxPool2dChecks,
                workspaceSize, executor);
  };
  return Boundary(__func__, body, ACLNN_ERR_INNER_CREATE_EXECUTOR);
}

aclnnStatus aclnnAdaptiveMaxPool2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return Boundary(__func__, [&] { return RunExecutor(workspace, workspaceSize, executor, stream); });
}

aclnnStatus aclnnAdaptiveMaxPool3dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                   aclTensor* outputOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  const auto body = [&] {
    return Plan(Api::kAdaptiveMaxPool3d, 3, self, outputSize, outputOut, indicesOut, kAdaptiveMaxPool3dChecks,
                workspaceSize, executor);
  };
  return Boundary(__func__, body, ACLNN_ERR_INNER_CREATE_EXECUTOR);
}

aclnnStatus aclnnAdaptiveMaxPool3d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return Boundary(__func__, [&] { return RunExecutor(workspace, workspaceSize, executor, stream); });
}
