// SPDX-License-Identifier: Apache-2.0

#include "host/operators/average_route.h"

#include <algorithm>

#include "host/checks/averages.h"
#include "host/mode.h"
#include "host/operators/conduct.h"

namespace poolgrad::host {
namespace {

constexpr int64_t kLeastGlobal = 10;    // elements along an axis
constexpr int64_t kMostOfConv2d = 255;  // of a divisor, a kernel and its elements
constexpr int64_t kSmallKernel = 20;    // has any number of elements
constexpr int64_t kChannelsOfConv2d = 65536;
constexpr int64_t kLongStrip = 2;  // the ratio of height and width from which planes are strips

int64_t SizeFromEnd(const aclTensor& tensor, int64_t axis) { return *(tensor.dims.end() - axis); }

bool IsGlobal(const PoolCall& call) {
  if (call.divisor_override != 0 || !HasOneWindow(call)) return false;
  for (int64_t axis = 0; axis < call.entry.axes; ++axis) {
    const int64_t size = SizeFromEnd(*call.self, call.entry.axes - axis);
    if (ValueOfAxis(*call.kernel_size, axis) != size || size < kLeastGlobal) return false;
  }
  return true;
}

bool RunsConv2d(const PoolCall& call) {
  const int64_t kernel_h = ValueOfAxis(*call.kernel_size, 0);
  const int64_t kernel_w = ValueOfAxis(*call.kernel_size, 1);
  const bool is_small =
      kernel_h <= kMostOfConv2d && kernel_w <= kMostOfConv2d &&
      (kernel_h * kernel_w <= kMostOfConv2d || (kernel_h <= kSmallKernel && kernel_w <= kSmallKernel));
  const bool is_usual_divisor = -kMostOfConv2d <= call.divisor_override && call.divisor_override <= kMostOfConv2d;
  const int64_t height = SizeFromEnd(*call.self, 2);
  const int64_t width = SizeFromEnd(*call.self, 1);
  const bool is_strip = height / width >= kLongStrip || width / height >= kLongStrip;
  return call.count_include_pad && !call.ceil_mode && is_small && is_usual_divisor && !is_strip &&
         SizeFromEnd(*call.grad_output, 3) < kChannelsOfConv2d;
}

AverageOperator OperatorOfAvgPool2d(const PoolCall& call) {
  if (IsGlobal(call)) return AverageOperator::kDiv;
  if (call.on_ascend950()) return AverageOperator::kAvgPoolV2Grad;
  return RunsConv2d(call) ? AverageOperator::kConv2d : AverageOperator::kAvgPool3dGrad;
}

// The adaptive operators of Ascend 950 choose among kernels that divide, and kernels that multiply by reciprocals: the
// definition stands for all of them.
MeanArithmetic ArithmeticOf(const PoolCall& call, AverageOperator kind) {
  const bool is_half = call.grad_output->dtype == ACL_FLOAT16;
  switch (kind) {
    case AverageOperator::kDiv:
      return {true, is_half};
    case AverageOperator::kConv2d:
      return {false, is_half};
    case AverageOperator::kAvgPoolV2Grad:
      return {true, false};
    case AverageOperator::kAvgPool3dGrad:
      return {false, false};
    case AverageOperator::kMul:
      return {false, true};
    default:
      return {call.on_ascend950(), false};
  }
}

int GeometryCode(const PoolCall& call, AverageOperator kind) {
  if (call.entry.api == Api::kAvgPool3dBackward || kind == AverageOperator::kConv2d) return ACLNN_ERR_PARAM_INVALID;
  return kind == AverageOperator::kAvgPool3dGrad ? ACL_SUCCESS : ACLNN_ERR_INNER_NULLPTR;
}

}  // namespace

AverageOperator OperatorOf(const PoolCall& call) {
  switch (call.entry.api) {
    case Api::kAvgPool2dBackward:
      return OperatorOfAvgPool2d(call);
    case Api::kAvgPool3dBackward:
      return AverageOperator::kAvgPool3dGrad;
    default:
      return HasOneWindow(call) ? AverageOperator::kMul : AverageOperator::kAdaptive;
  }
}

AverageConduct ConductOfAverage(const PoolCall& call, const std::vector<WindowAxis>& windows) {
  const AverageOperator kind = OperatorOf(call);
  const SumOrder order = kind == AverageOperator::kConv2d ? SumOrder::kRowsFirst : SumOrder::kRowMajor;
  AverageConduct conduct{ArithmeticOf(call, kind), order, 0, GeometryCode(call, kind)};
  const bool adds = kind != AverageOperator::kDiv && kind != AverageOperator::kMul && WindowsOverlap(call, windows);
  if (!IsStrict() || !adds) return conduct;
  const bool adds_by_atomics = !call.on_ascend950() && kind != AverageOperator::kConv2d;
  if (!adds_by_atomics || !call.entry.deterministic) conduct.order = SumOrder::kReversed;
  if (adds_by_atomics && call.grad_output->dtype != ACL_FLOAT) conduct.workspace_size = FloatCopySize(*call.grad_input);
  return conduct;
}

int CodeOfOtherFormat(const PoolCall& call) {
  const AverageOperator kind = OperatorOf(call);
  const aclFormat format = call.grad_input->format;
  if (call.entry.api == Api::kAdaptiveAvgPool2dBackward) {
    // A view of another rank, and the result of Mul, are ND.
    const bool is_nd = call.self->format == ACL_FORMAT_ND || kind == AverageOperator::kMul ||
                       (!call.on_ascend950() && call.self->rank() == 3);
    return is_nd || format == call.self->format ? ACL_SUCCESS : ACLNN_ERR_INNER_NULLPTR;
  }
  // Planes without N are viewed as NCL.
  const bool is_other = call.entry.api == Api::kAvgPool2dBackward && call.grad_input->rank() == 3 &&
                        format != ACL_FORMAT_NCL && !IsOneBatch(call, kind);
  if (!is_other) return ACL_SUCCESS;
  if (kind == AverageOperator::kConv2d) return ACLNN_ERR_PARAM_INVALID;
  return kind == AverageOperator::kDiv ? ACLNN_ERR_INNER_NULLPTR : ACLNN_ERR_INNER;
}

}  // namespace poolgrad::host
