// SPDX-License-Identifier: Apache-2.0

// aclnnAdaptiveAvgPool2dBackward and aclnnAdaptiveAvgPool3dBackward.

#include "host/checks/averages.h"
#include "host/operators/average_backward.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// Both in the order of CANN's code.
constexpr std::initializer_list<PoolCheck> kAdaptiveAvgPool2dChecks = {
    CheckAverageTensorsGiven, CheckAdaptive2dShapes, CheckAverageInputDtypes, CheckInputDtypesEqual, CheckInputFormats,
};

constexpr std::initializer_list<PoolCheck> kAdaptiveAvgPool3dChecks = {
    CheckAverageTensorsGiven,
    CheckAdaptive3dShapes,
    CheckAdaptive3dDtypes,
    CheckAverageFormats,
};

PoolCall CallOf(Entry entry, const aclTensor* grad_output, const aclTensor* self, aclTensor* out) {
  PoolCall call{entry, grad_output, self};
  call.grad_input = out;
  return call;
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  const auto build = [](aclOpExecutor& executor) { return BuildAverageBackward(executor, kAdaptiveAvgPool2dChecks); };
  return RunPhase1(__func__, CallOf({Api::kAdaptiveAvgPool2dBackward, 2}, gradOutput, self, out), build, workspaceSize,
                   executor);
}

aclnnStatus aclnnAdaptiveAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnAdaptiveAvgPool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  const auto build = [](aclOpExecutor& executor) { return BuildAverageBackward(executor, kAdaptiveAvgPool3dChecks); };
  return RunPhase1(__func__, CallOf({Api::kAdaptiveAvgPool3dBackward, 3}, gradOutput, self, out), build, workspaceSize,
                   executor);
}

aclnnStatus aclnnAdaptiveAvgPool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
