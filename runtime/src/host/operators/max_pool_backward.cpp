// SPDX-License-Identifier: Apache-2.0

// aclnnMaxPool3dWithArgmaxBackward and aclnnMaxPool2dWithIndicesBackward.

#include "host/checks/tensors.h"
#include "host/checks/windows.h"
#include "host/operators/backward.h"
#include "host/operators/phases.h"

namespace poolgrad::host {
namespace {

// In the order of CANN's code. The operator's tiling, in phase 2, checks the sizes of gradOutput.
constexpr std::initializer_list<PoolCheck> kMaxPool3dChecks = {
    CheckTensorsGiven,   CheckListsGiven,    CheckSelfDtype,     CheckIndicesDtype,   CheckGradDtypes,
    CheckGradFormats,    CheckIndicesFormat, CheckRanks,         CheckKernelLength,   CheckKernelValues,
    CheckStrideLength,   CheckStrideValues,  CheckPaddingLength, CheckPaddingValues,  CheckDilationLength,
    CheckDilationValues, CheckPlaneSize,     CheckIndicesShape,  CheckGradInputShape,
};

// In the order of CANN's code, without two of its checks: the others imply that padding is at most half of the dilated
// kernel, and CANN ignores the result of its check of the shape of indices, which phase 2 makes.
constexpr std::initializer_list<PoolCheck> kMaxPool2dChecks = {
    CheckTensorsGiven,   CheckListsGiven,     CheckSelfDtype,       CheckGradDtypes,
    CheckIndicesDtype,   CheckGradFormats,    CheckIndicesFormat,   CheckRanks,
    CheckKernelLength,   CheckStrideLength,   CheckPaddingLength,   CheckDilationLength,
    CheckKernelValues,   CheckStrideValues,   CheckPaddingValues,   CheckDilationIsOneOutsideAscend950,
    CheckGradInputShape, CheckOnlyBatchEmpty, CheckGradOutputShape,
};

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclnnStatus aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclTensor* indices, const aclIntArray* kernelSize,
                                                             const aclIntArray* stride, const aclIntArray* padding,
                                                             const aclIntArray* dilation, bool ceilMode,
                                                             aclTensor* gradInput, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor) {
  const PoolCall call{{Api::kMaxPool3dWithArgmaxBackward, 3},
                      gradOutput,
                      self,
                      indices,
                      kernelSize,
                      stride,
                      padding,
                      dilation,
                      ceilMode,
                      gradInput};
  const auto build = [](aclOpExecutor& executor) { return BuildBackward(executor, kMaxPool3dChecks); };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnMaxPool3dWithArgmaxBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                              const aclTensor* indices, const aclIntArray* kernelSize,
                                                              const aclIntArray* stride, const aclIntArray* padding,
                                                              const aclIntArray* dilation, bool ceilMode,
                                                              aclTensor* gradInput, uint64_t* workspaceSize,
                                                              aclOpExecutor** executor) {
  const PoolCall call{{Api::kMaxPool2dWithIndicesBackward, 2},
                      gradOutput,
                      self,
                      indices,
                      kernelSize,
                      stride,
                      padding,
                      dilation,
                      ceilMode,
                      gradInput};
  const auto build = [](aclOpExecutor& executor) { return BuildBackward(executor, kMaxPool2dChecks); };
  return RunPhase1(__func__, call, build, workspaceSize, executor);
}

aclnnStatus aclnnMaxPool2dWithIndicesBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream) {
  return RunPhase2(__func__, workspace, workspaceSize, executor, stream);
}
