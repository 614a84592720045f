// SPDX-License-Identifier: Apache-2.0

#include "aclnn/function.h"

#include "aclnn/phase_1.h"

namespace poolgrad::aclnn {
namespace {

constexpr std::initializer_list<Operand> kPool = {
    {Role::kSelf, Use::kRead}, {Role::kOut, Use::kWritten}, {Role::kIndices, Use::kWritten}};
constexpr std::initializer_list<Operand> kGradient = {{Role::kGradOutput, Use::kRead},
                                                      {Role::kSelf, Use::kSizes},
                                                      {Role::kIndices, Use::kRead},
                                                      {Role::kGradInput, Use::kWritten}};

constexpr std::initializer_list<Operand> kAverageGradient = {
    {Role::kGradOutput, Use::kRead}, {Role::kSelf, Use::kSizes}, {Role::kGradInput, Use::kWritten}};

using Lists = std::initializer_list<Axes Window::*>;
constexpr Lists kWindow = {&Window::kernel, &Window::stride, &Window::padding, &Window::dilation};
constexpr Lists kAverageWindow = {&Window::kernel, &Window::stride, &Window::padding};
constexpr Lists kOutputSize = {&Window::output_size};
constexpr Lists kNoLists = {};

static_assert(kPool.size() <= kMaxOperands && kGradient.size() <= kMaxOperands && kWindow.size() <= kMaxLists);

// Phase 1 of each signature.
using MaxPool = decltype(aclnnMaxPool3dWithArgmaxGetWorkspaceSize);
using AdaptiveMaxPool = decltype(aclnnAdaptiveMaxPool3dGetWorkspaceSize);
using MaxPoolBackward = decltype(aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize);
using AdaptiveMaxPoolBackward = decltype(aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize);
using AvgPool2dBackward = decltype(aclnnAvgPool2dBackwardGetWorkspaceSize);
using AvgPool3dBackward = decltype(aclnnAvgPool3dBackwardGetWorkspaceSize);
using AdaptiveAvgPoolBackward = decltype(aclnnAdaptiveAvgPool3dBackwardGetWorkspaceSize);

// cubeMathType KEEP_DTYPE: float32 stays float32 in every operator.
constexpr std::int8_t kKeepDtype = 0;

int Invoke(MaxPool* phase_1, const Arguments& arguments, const Window& window, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& [tensors, lists] = arguments;
  return phase_1(tensors[0].get(), lists[0].get(), lists[1].get(), lists[2].get(), lists[3].get(), window.ceil_mode,
                 tensors[1].get(), tensors[2].get(), workspace_size, executor);
}

int Invoke(AdaptiveMaxPool* phase_1, const Arguments& arguments, const Window&, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& [tensors, lists] = arguments;
  return phase_1(tensors[0].get(), lists[0].get(), tensors[1].get(), tensors[2].get(), workspace_size, executor);
}

int Invoke(MaxPoolBackward* phase_1, const Arguments& arguments, const Window& window, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& [tensors, lists] = arguments;
  return phase_1(tensors[0].get(), tensors[1].get(), tensors[2].get(), lists[0].get(), lists[1].get(), lists[2].get(),
                 lists[3].get(), window.ceil_mode, tensors[3].get(), workspace_size, executor);
}

int Invoke(AdaptiveMaxPoolBackward* phase_1, const Arguments& arguments, const Window&, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& tensors = arguments.tensors;
  return phase_1(tensors[0].get(), tensors[1].get(), tensors[2].get(), tensors[3].get(), workspace_size, executor);
}

int Invoke(AvgPool2dBackward* phase_1, const Arguments& arguments, const Window& window, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& [tensors, lists] = arguments;
  return phase_1(tensors[0].get(), tensors[1].get(), lists[0].get(), lists[1].get(), lists[2].get(), window.ceil_mode,
                 window.count_include_pad, window.divisor_override, kKeepDtype, tensors[2].get(), workspace_size,
                 executor);
}

int Invoke(AvgPool3dBackward* phase_1, const Arguments& arguments, const Window& window, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& [tensors, lists] = arguments;
  return phase_1(tensors[0].get(), tensors[1].get(), lists[0].get(), lists[1].get(), lists[2].get(), window.ceil_mode,
                 window.count_include_pad, window.divisor_override, tensors[2].get(), workspace_size, executor);
}

int Invoke(AdaptiveAvgPoolBackward* phase_1, const Arguments& arguments, const Window&, std::uint64_t* workspace_size,
           aclOpExecutor** executor) {
  const auto& tensors = arguments.tensors;
  return phase_1(tensors[0].get(), tensors[1].get(), tensors[2].get(), workspace_size, executor);
}

// The prototype selects the Invoke: a row whose signature has none does not compile.
template <typename Prototype>
int CallPhase1(void* get_workspace_size, const Arguments& arguments, const Window& window,
               std::uint64_t* workspace_size, aclOpExecutor** executor) {
  return Invoke(reinterpret_cast<Prototype*>(get_workspace_size), arguments, window, workspace_size, executor);
}

}  // namespace

#define POOLGRAD_ROW(name, axes, operands, lists, index_type) \
  Function{"aclnn" #name "GetWorkspaceSize",                  \
           "aclnn" #name,                                     \
           axes,                                              \
           operands,                                          \
           lists,                                             \
           index_type,                                        \
           CallPhase1<decltype(aclnn##name##GetWorkspaceSize)>},
const std::array<Function, kFunctionCount> kFunctions = {POOLGRAD_ACLNN_FUNCTIONS(POOLGRAD_ROW)};
#undef POOLGRAD_ROW

}  // namespace poolgrad::aclnn
