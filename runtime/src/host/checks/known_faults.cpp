// SPDX-License-Identifier: Apache-2.0

#include "host/checks/known_faults.h"

#include <algorithm>

#include "host/violations.h"

namespace poolgrad::host {
namespace {

constexpr int kFault = ACL_ERROR_RT_AICORE_EXCEPTION;

bool HasGaps(const WindowAxis& window) { return window.kernel > 1 && window.dilation > 1; }

// Whether two windows along an axis of `size` elements contain the same one.
bool ShareAnElement(const AxisSpans& axis, int64_t size) {
  std::vector<bool> seen(static_cast<size_t>(size));
  for (const Span& span : axis.spans) {
    for (int64_t element = 0; element < span.count; ++element) {
      std::vector<bool>::reference is_seen = seen[static_cast<size_t>(span.first + element * axis.step)];
      if (is_seen) return true;
      is_seen = true;
    }
  }
  return false;
}

// MaxPool3DGradWithArgmax of Atlas A2 and A3 takes windows for apart if no kernel is larger than its stride, and then
// stores in place of adding. ops-nn, pooling/: SetAttrParams in
// max_pool3d_grad_with_argmax/op_host/max_pool3d_grad_with_argmax_tiling_base.cpp, lines 202-205; CalcOutOffset in
// pool_3d_common/op_kernel/arch22/max_pool3d_grad_scatter_unified.h, line 81.
bool StoresSums(const std::vector<WindowAxis>& windows, const Planes& grad_input,
                const std::array<AxisSpans, 3>& spans) {
  const auto is_apart = [](const WindowAxis& window) { return window.kernel <= window.stride; };
  if (!std::all_of(windows.begin(), windows.end(), is_apart)) return false;
  for (size_t axis = 0; axis < spans.size(); ++axis) {
    if (ShareAnElement(spans[axis], grad_input.dims[axis])) return true;
  }
  return false;
}

// MaxPoolGradWithArgmaxV3 of Ascend 950: its vector kernel for channels first adds windows together that are
// ceil(kernel / stride) apart, and has buffers for windows without gaps. ops-nn, pooling/: InitializationVars and
// DoBufferCalculate in pool_grad_common/op_host/arch35/max_pool_grad_nchw_tiling_common.cpp, lines 60-68 and 103-104.
// Other kernels run kernels and planes of few elements: IsCapable in
// max_pool_grad_with_argmax_v3/op_host/arch35/max_pool_grad_with_argmax_v3_simt_tiling.cpp, lines 34-44.
bool AddsTooManyTogether(const std::vector<WindowAxis>& windows, const std::array<AxisSpans, 3>& spans) {
  constexpr Wide kFew = 256;
  Wide elements = 1;
  Wide positions = 1;
  for (const WindowAxis& window : windows) elements *= std::min<Wide>(window.kernel, kFew);
  for (const AxisSpans& axis : spans) positions *= static_cast<Wide>(axis.spans.size());
  const bool is_small = elements < kFew && positions < kFew;
  return !is_small && std::any_of(windows.begin(), windows.end(), HasGaps);
}

}  // namespace

Status CheckGaps(const PoolCall& call, const std::vector<WindowAxis>& windows, const Planes& grad_input,
                 const std::array<AxisSpans, 3>& spans) {
  if (windows.empty()) return {};
  bool is_wrong = false;
  if (!call.on_ascend950()) {
    is_wrong = StoresSums(windows, grad_input, spans);
  } else if (call.entry.api == Api::kMaxPool2dWithIndicesBackward && !call.channels_last()) {
    is_wrong = AddsTooManyTogether(windows, spans);
  }
  if (!is_wrong) return {};
  return Violation(Rule::kKnownFault, kFault, "CANN loses gradients of windows with a dilation of ",
                   DimsText(call.dilation->values), ", a kernel of ", DimsText(call.kernel_size->values),
                   " and a stride of ", DimsText(call.stride->values));
}

// The tiling divides by the number of passes in which a core without elements copies them, 0. ops-nn,
// pooling/avg_pool3_d_grad/: Tiling4CastCopyOut in op_host/avg_pool_3d_grad_tiling.cpp, lines 288-302, and the number
// of cores in lines 643-668; the layouts in op_api/aclnn_avgpool3d_backward.cpp, lines 415-432. The numbers of cores
// are the largest vector_core_cnt of the product in the platform files of CANN's runtime.
Status CheckFewElements(const PoolCall& call, const Planes& grad_output, const Planes& grad_input, bool overlap) {
  if (call.grad_output->dtype == ACL_FLOAT) return {};
  const int64_t most_cores = call.on_ascend950() ? 72 : 48;
  constexpr int64_t kFewPlanes = 12, kManyPlanes = 256;
  const bool is_3d = call.entry.api == Api::kAvgPool3dBackward;
  const auto is_one = [&](int64_t axis) {
    const aclIntArray& stride = call.stride->values.empty() ? *call.kernel_size : *call.stride;
    return ValueOfAxis(*call.kernel_size, axis) == 1 && ValueOfAxis(stride, axis) == 1;
  };
  const bool is_depth_alone = is_3d && is_one(1) && is_one(2);
  const bool is_blocked = is_3d && kFewPlanes <= grad_output.count() && grad_output.count() < kManyPlanes;
  // A plane, or all planes of a group together, is on one core.
  if (call.entry.deterministic && overlap && (is_depth_alone || !is_blocked)) return {};
  const Wide planes = is_depth_alone || is_blocked ? grad_output.count() : 1;
  const Wide tasks = planes * (is_depth_alone ? grad_output.dims[0] : grad_output.plane_size());
  const Wide elements = Wide{grad_input.count()} * grad_input.plane_size();
  if (elements >= std::min<Wide>(most_cores, tasks)) return {};
  return Violation(Rule::kKnownFault, kFault, "CANN divides by zero where ", DtypeName(call.grad_output->dtype),
                   " gradients have the shape ", DimsText(call.grad_output->dims), " and results the shape ",
                   DimsText(call.grad_input->dims));
}

}  // namespace poolgrad::host
