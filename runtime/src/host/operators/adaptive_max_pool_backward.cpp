// SPDX-License-Identifier: Apache-2.0

// aclnnAdaptiveMaxPool2dBackward and aclnnAdaptiveMaxPool3dBackward.

#include "host/checks/tensors.h"
#include "host/operators/backward.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// Both in the order of CANN's code. The operator's tiling compares N and C of gradOutput with those of self.
constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool2dChecks = {
    CheckTensorsGiven, CheckGradDtypes,     CheckSelfDtype,  CheckIndicesDtype, CheckRanksEqual,
    CheckIndicesShape, CheckGradInputShape, CheckAllFormats, CheckRanks,        CheckPlaneSize,
};

constexpr std::initializer_list<PoolCheck> kAdaptiveMaxPool3dChecks = {
    CheckTensorsGiven,
    CheckGradDtypes,
    CheckSelfDtype,
    CheckIndicesDtype,
    CheckRanksEqual,
    CheckIndicesShape,
    CheckGradInputShape,
    CheckPlaneSize,
    CheckAllFormats,
    CheckRanks,
    CheckIndicesInt32OutsideAscend950,
};

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, aclTensor* gradInput,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  PoolCall call{{Api::kAdaptiveMaxPool2dBackward, 2}, gradOutput, self, indices};
  call.grad_input = gradInput;
  const auto build = [](aclOpExecutor& executor) { return BuildBackward(executor, kAdaptiveMaxPool2dChecks); };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAdaptiveMaxPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, aclTensor* gradInput,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  PoolCall call{{Api::kAdaptiveMaxPool3dBackward, 3}, gradOutput, self, indices};
  call.grad_input = gradInput;
  const auto build = [](aclOpExecutor& executor) { return BuildBackward(executor, kAdaptiveMaxPool3dChecks); };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAdaptiveMaxPool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
