// SPDX-License-Identifier: Apache-2.0

// aclnnAdaptiveMaxPool2d and aclnnAdaptiveMaxPool3d.

#include "host/checks/pools.h"
#include "host/checks/tensors.h"
#include "host/operators/forward.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// All in the order of CANN's code.
constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool2dChecks = {
    CheckPoolTensorsGiven,    CheckOutputSizeGiven, CheckSelfDtype,    CheckOutDtype,         CheckIndicesDtype,
    CheckIndicesHaveOutShape, CheckPoolRanks,       CheckAxesNotEmpty, CheckOutputSizeLength, CheckOutputSizeValues,
};

constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool3dChecks = {
    CheckPoolTensorsGiven, CheckOutputSizeGiven,
    CheckPoolRanks,        CheckSelfDtype,
    CheckIndicesDtype,     CheckAdaptive3dFormat,
    CheckOutFormat,        CheckOutputSizeLength,
    CheckAdaptiveOutShape, CheckIndicesHaveOutShapeAtFirst,
    CheckOutDtype,         CheckAxesNotEmpty,
    CheckInt32PlaneSize,   CheckOutputSizeValues,
};

constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool2dLateChecks = {CheckAdaptive2dFormat,
                                                                           CheckAdaptiveOutShape};
constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool3dLateChecks = {CheckAdaptiveIndicesShape};

PoolCall CallOf(Api api, int64_t axes, const aclTensor* self, const aclIntArray* output_size, const aclTensor* out,
                const aclTensor* indices) {
  PoolCall call{{api, axes}, nullptr, self, indices};
  call.output_size = output_size;
  call.out = out;
  return call;
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnAdaptiveMaxPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                   aclTensor* outputOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  const PoolCall call = CallOf(Api::kAdaptiveMaxPool2d, 2, self, outputSize, outputOut, indicesOut);
  const auto build = [](aclOpExecutor& executor) {
    return BuildForward(executor, kAdaptiveMaxPool2dChecks, kAdaptiveMaxPool2dLateChecks);
  };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAdaptiveMaxPool2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnAdaptiveMaxPool3dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                   aclTensor* outputOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  const PoolCall call = CallOf(Api::kAdaptiveMaxPool3d, 3, self, outputSize, outputOut, indicesOut);
  const auto build = [](aclOpExecutor& executor) {
    return BuildForward(executor, kAdaptiveMaxPool3dChecks, kAdaptiveMaxPool3dLateChecks);
  };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAdaptiveMaxPool3d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
