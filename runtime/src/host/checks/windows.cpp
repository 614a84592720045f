// SPDX-License-Identifier: Apache-2.0

#include "host/checks/windows.h"

#include <algorithm>
#include <limits>

#include "host/checks/geometry.h"
#include "host/trace.h"

namespace poolgrad::host {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

struct NamedList {
  const char* name;
  const aclIntArray* list;
};

Status CheckLength(const PoolCall& call, NamedList checked, bool may_be_empty = false) {
  const int64_t size = checked.list->size();
  if (size == 1 || size == call.entry.axes || (size == 0 && may_be_empty)) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " is ", DimsText(checked.list->values), "; it has to have 1 or ",
              call.entry.axes, " values", may_be_empty ? ", or none" : "");
}

Status CheckAtLeastOne(NamedList checked) {
  for (const int64_t value : checked.list->values) {
    if (value > 0) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " is ", DimsText(checked.list->values),
                "; no value may be less than 1");
  }
  return {};
}

std::vector<WindowAxis> WindowsOf(const PoolCall& call) {
  return WindowAxes(*call.kernel_size, *call.stride, *call.padding, *call.dilation, call.entry.axes);
}

}  // namespace

Status CheckListsGiven(const PoolCall& call) {
  for (const NamedList& named : {NamedList{"kernelSize", call.kernel_size}, NamedList{"stride", call.stride},
                                 NamedList{"padding", call.padding}, NamedList{"dilation", call.dilation}}) {
    if (named.list == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, named.name, " is null");
  }
  return {};
}

Status CheckKernelLength(const PoolCall& call) { return CheckLength(call, {"kernelSize", call.kernel_size}); }

Status CheckStrideLength(const PoolCall& call) {
  return CheckLength(call, {"stride", call.stride}, /*may_be_empty=*/true);
}

Status CheckPaddingLength(const PoolCall& call) { return CheckLength(call, {"padding", call.padding}); }

Status CheckDilationLength(const PoolCall& call) { return CheckLength(call, {"dilation", call.dilation}); }

Status CheckKernelValues(const PoolCall& call) { return CheckAtLeastOne({"kernelSize", call.kernel_size}); }

Status CheckStrideValues(const PoolCall& call) { return CheckAtLeastOne({"stride", call.stride}); }

Status CheckPaddingValues(const PoolCall& call) {
  for (int64_t axis = 0; axis < call.entry.axes; ++axis) {
    const int64_t padding = ValueOfAxis(*call.padding, axis);
    const int64_t limit = ValueOfAxis(*call.kernel_size, axis) / 2;
    if (padding >= 0 && padding <= limit) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, "padding is ", DimsText(call.padding->values), "; on spatial axis ", axis,
                " it has to be 0 to ", limit, ", half the kernel");
  }
  return {};
}

Status CheckDilationValues(const PoolCall& call) {
  const std::vector<int64_t>& values = call.dilation->values;
  if (std::any_of(values.begin(), values.end(), [](int64_t value) { return value > 1; })) {
    TraceNote("the documents have no dilation but 1; the code takes more");
  }
  return CheckAtLeastOne({"dilation", call.dilation});
}

Status CheckDilationIsOneOutsideAscend950(const PoolCall& call) {
  const int64_t limit = call.on_ascend950() ? kUnlimited : 1;
  for (const int64_t value : call.dilation->values) {
    if (value >= 1 && value <= limit) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, "dilation is ", DimsText(call.dilation->values),
                "; no value may be less than 1, or on a product other than Ascend950 more");
  }
  return {};
}

Status CheckGradOutputShape(const PoolCall& call) {
  if (call.grad_output->rank() != call.self->rank()) {
    return Fail(ACLNN_ERR_PARAM_INVALID, "gradOutput has shape ", DimsText(call.grad_output->dims),
                "; it has to have as many dimensions as self, ", call.self->rank());
  }
  const bool channels_last = call.self->format == ACL_FORMAT_NHWC;
  const Planes self = PlanesOf(*call.self, call.entry.axes, channels_last);
  const Planes grad = PlanesOf(*call.grad_output, call.entry.axes, channels_last);
  return CheckPooled(self, grad, WindowsOf(call), call.ceil_mode, ACLNN_ERR_PARAM_INVALID);
}

}  // namespace poolgrad::host
