// SPDX-License-Identifier: Apache-2.0

// aclnnMaxPool3dWithArgmax and aclnnMaxPool2dWithIndices.

#include "host/checks/pools.h"
#include "host/checks/tensors.h"
#include "host/checks/windows.h"
#include "host/operators/forward.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// On Ascend950 CANN does not check the values.
Status CheckMaxPool3dDilation(const PoolCall& call) {
  return call.on_ascend950() ? Status{} : CheckDilationIsOneOutsideAscend950(call);
}

// All in the order of CANN's code.
constexpr std::initializer_list<PoolCheck> kMaxPool3dChecks = {
    CheckProduct,        CheckPoolTensorsGiven,  CheckListsGiven,   CheckSelfDtype,       CheckIndicesDtype,
    CheckOutDtype,       CheckPoolFormats,       CheckPoolRanks,    CheckMaxPool3dFormat, CheckKernelLength,
    CheckKernelValues,   CheckStrideLength,      CheckStrideValues, CheckPaddingLength,   CheckPaddingValues,
    CheckDilationLength, CheckMaxPool3dDilation,
};

constexpr std::initializer_list<PoolCheck> kMaxPool3dLateChecks = {CheckPoolPlaneSize, CheckMaxPool3dLayout,
                                                                   CheckPooledShape};

constexpr std::initializer_list<PoolCheck> kMaxPool2dChecks = {
    CheckPoolTensorsGiven, CheckListsGiven,   CheckSelfDtype,    CheckOutDtype,      CheckIndicesDtype,
    CheckOutFormat,        CheckPoolRanks,    CheckKernelLength, CheckStrideLength,  CheckPaddingLength,
    CheckDilationLength,   CheckKernelValues, CheckStrideValues, CheckPaddingValues, CheckDilationIsOneOutsideAscend950,
    CheckOnlyBatchEmpty,   CheckPooledShape,
};

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnMaxPool3dWithArgmaxGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                     const aclIntArray* stride, const aclIntArray* padding,
                                                     const aclIntArray* dilation, bool ceilMode, aclTensor* out,
                                                     aclTensor* indices, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
  PoolCall call{
      {Api::kMaxPool3dWithArgmax, 3}, nullptr, self, indices, kernelSize, stride, padding, dilation, ceilMode};
  call.out = out;
  const auto build = [](aclOpExecutor& executor) {
    return BuildForward(executor, kMaxPool3dChecks, kMaxPool3dLateChecks);
  };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnMaxPool3dWithArgmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMaxPool2dWithIndicesGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                      const aclIntArray* stride, const aclIntArray* padding,
                                                      const aclIntArray* dilation, bool ceilMode, aclTensor* out,
                                                      aclTensor* indices, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  PoolCall call{
      {Api::kMaxPool2dWithIndices, 2}, nullptr, self, indices, kernelSize, stride, padding, dilation, ceilMode};
  call.out = out;
  const auto build = [](aclOpExecutor& executor) { return BuildForward(executor, kMaxPool2dChecks, {}); };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnMaxPool2dWithIndices(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
