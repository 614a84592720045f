// SPDX-License-Identifier: Apache-2.0

// aclnnAvgPool2dBackward and aclnnAvgPool3dBackward.

#include "host/checks/averages.h"
#include "host/checks/windows.h"
#include "host/operators/average_backward.h"
#include "host/operators/average_route.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// Div does not look at the padding. Where it is negative, CANN's cube fails with the code of the other operators. On
// Ascend950 the function checks as many values of padding as kernelSize has, and the operator the other one.
Status CheckPaddingUnlessGlobal(const PoolCall& call) {
  if (OperatorOf(call) == AverageOperator::kDiv) return {};
  Status status = CheckPaddingValues(call);
  const bool is_second = call.kernel_size->size() == 1 && call.padding->values.front() >= 0;
  if (!status.ok() && call.on_ascend950() && is_second) status.code = ACLNN_ERR_INNER_NULLPTR;
  return status;
}

// All in the order of CANN's code. The late checks follow the return for empty tensors.
constexpr std::initializer_list<PoolCheck> kAvgPool2dChecks = {
    CheckAverageTensorsGiven, CheckAverageListsGiven, CheckAverageDtypes,    CheckResultDtype,  CheckAvgPool2dFormats,
    CheckAvgPool2dRanks,      CheckAvgPool2dLists,    CheckAvgPool2dPadding, CheckCubeMathType, CheckResultShape,
};
constexpr std::initializer_list<PoolCheck> kAvgPool2dLateChecks = {CheckPaddingUnlessGlobal};

constexpr std::initializer_list<PoolCheck> kAvgPool3dChecks = {
    CheckAverageTensorsGiven, CheckAverageListsGiven, CheckAverageDtypes, CheckAvgPool3dRanks,
    CheckResultShape,         CheckAvgPool3dLists,    CheckResultFormat,
};
constexpr std::initializer_list<PoolCheck> kAvgPool3dLateChecks = {CheckAvgPool3dWindow};

PoolCall CallOf(Entry entry, const aclTensor* grad_output, const aclTensor* self, const aclIntArray* kernel_size,
                const aclIntArray* stride, const aclIntArray* padding, bool ceil_mode, bool count_include_pad,
                int64_t divisor_override, aclTensor* grad_input) {
  PoolCall call{entry, grad_output, self, nullptr, kernel_size, stride, padding, nullptr, ceil_mode, grad_input};
  call.count_include_pad = count_include_pad;
  call.divisor_override = divisor_override;
  return call;
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                   const aclIntArray* kernelSize, const aclIntArray* stride,
                                                   const aclIntArray* padding, bool ceilMode, bool countIncludePad,
                                                   int64_t divisorOverride, int8_t cubeMathType, aclTensor* gradInput,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor) {
  PoolCall call = CallOf({Api::kAvgPool2dBackward, 2}, gradOutput, self, kernelSize, stride, padding, ceilMode,
                         countIncludePad, divisorOverride, gradInput);
  call.cube_math_type = cubeMathType;
  const auto build = [](aclOpExecutor& executor) {
    return BuildAverageBackward(executor, kAvgPool2dChecks, kAvgPool2dLateChecks);
  };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnAvgPool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                   const aclIntArray* kernelSize, const aclIntArray* stride,
                                                   const aclIntArray* padding, bool ceilMode, bool countIncludePad,
                                                   int64_t divisorOverride, aclTensor* output, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  const PoolCall call = CallOf({Api::kAvgPool3dBackward, 3}, gradOutput, self, kernelSize, stride, padding, ceilMode,
                               countIncludePad, divisorOverride, output);
  const auto build = [](aclOpExecutor& executor) {
    return BuildAverageBackward(executor, kAvgPool3dChecks, kAvgPool3dLateChecks);
  };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnAvgPool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
