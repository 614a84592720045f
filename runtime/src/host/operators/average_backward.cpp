// SPDX-License-Identifier: Apache-2.0

#include "host/operators/average_backward.h"

#include <utility>
#include <vector>

#include "host/checks/averages.h"
#include "host/checks/geometry.h"
#include "host/checks/known_faults.h"
#include "host/checks/named_tensor.h"
#include "host/checks/storage.h"
#include "host/kernels/average_gradient.h"
#include "host/mode.h"
#include "host/operators/average_route.h"
#include "host/operators/conduct.h"
#include "host/operators/phases.h"
#include "host/planes.h"
#include "host/trace.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

constexpr int kFault = ACL_ERROR_RT_AICORE_EXCEPTION;

// The data of a call that phase 2 needs: the caller's tensors, and copies of the lists.
struct Launch {
  PoolCall call;
  std::vector<WindowAxis> windows;  // none: adaptive, or one window over all of a plane
  AverageConduct conduct;

  Planes PlanesOf(const aclTensor& tensor) const { return host::PlanesOf(tensor, call.entry.axes, false); }
};

// The operators with windows of a fixed size have a divisor of 32 bits.
int64_t Narrowed(int64_t divisor) { return static_cast<int32_t>(static_cast<uint32_t>(divisor)); }

Launch LaunchOf(const PoolCall& call) {
  Launch launch{call, {}, {}};
  if (call.kernel_size != nullptr && OperatorOf(call) != AverageOperator::kDiv) {
    const aclIntArray one{{1}};
    launch.windows = WindowAxes(*call.kernel_size, *call.stride, *call.padding, one, call.entry.axes);
  }
  launch.conduct = ConductOfAverage(call, launch.windows);
  return launch;
}

// `code` is that of a failure. Adaptive windows fit any sizes; aclnnAdaptiveAvgPool2dBackward finds another size of the
// result when it copies to it.
Status CheckGeometry(const Launch& launch, int code) {
  const PoolCall& call = launch.call;
  const AverageOperator kind = OperatorOf(call);
  Planes self = launch.PlanesOf(*call.self);
  const Planes grad_output = launch.PlanesOf(*call.grad_output);
  if (call.self->rank() != call.grad_output->rank() || call.self->dims != call.grad_input->dims) {
    return Fail(code, NameOfResult(call), " has shape ", DimsText(call.grad_input->dims), " and gradOutput ",
                DimsText(call.grad_output->dims), "; self has ", DimsText(call.self->dims));
  }
  if (IsOneBatch(call, kind) && self.count() == grad_output.count()) {
    self.n = grad_output.n;
    self.c = grad_output.c;
  }
  if (launch.windows.empty()) return CheckPlaneCount(self, grad_output, code);
  const bool truncates = kind != AverageOperator::kConv2d;
  return CheckPooled(self, grad_output, launch.windows, call.ceil_mode, code, truncates);
}

Status CheckGeometryInPhase1(const Launch& launch) {
  const PoolCall& call = launch.call;
  if (const int code = launch.conduct.geometry_code; code != ACL_SUCCESS) return CheckGeometry(launch, code);
  // The operator's result is viewed in the shape of gradInput.
  const Planes self = launch.PlanesOf(*call.self);
  const Planes grad_output = launch.PlanesOf(*call.grad_output);
  if (self.count() == grad_output.count()) return {};
  return CheckPlaneCount(self, grad_output, ACLNN_ERR_PARAM_INVALID);
}

// The operator's result is copied to the caller's, which has to have its dtype and, unless it is ND, its format.
Status CheckCopy(const PoolCall& call) {
  Status status = CheckResultDtype(call);
  status.code = status.ok() ? ACL_SUCCESS : ACLNN_ERR_INNER_NULLPTR;
  if (!status.ok()) return status;
  const int code = CodeOfOtherFormat(call);
  return code == ACL_SUCCESS ? Status{}
                             : Fail(code, NameOfResult(call), " has format ", FormatName(call.grad_input->format),
                                    "; the operator's result has another one");
}

void TakeWindows(const Launch& launch, AverageGradient& work) {
  const std::array<int64_t, 3>& sizes = work.grad_input.dims;
  const std::array<int64_t, 3>& counts = work.grad_output.dims;
  const std::vector<WindowAxis>& windows = launch.windows;
  work.windows = SpansOf(sizes, counts, windows);
  const size_t absent = sizes.size() - windows.size();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::optional<WindowAxis> common;
    if (axis >= absent) {
      common = windows[axis - absent];
      work.counts[axis] = CountedElements(sizes[axis], counts[axis], *common, launch.call.count_include_pad);
    } else {
      for (const Span& span : work.windows[axis].spans) work.counts[axis].push_back(static_cast<double>(span.count));
      const int64_t size = sizes[axis] / counts[axis];
      if (sizes[axis] % counts[axis] == 0) common = WindowAxis{size, size, 0, 1};
    }
    if (axis > 0) work.common[axis - 1] = common;
  }
  work.divisor = Narrowed(launch.call.divisor_override);
}

Status CheckStorages(const PoolCall& call) {
  Status status = CheckReadable("gradOutput", *call.grad_output);
  return status.ok() ? CheckWritable(NameOfResult(call), *call.grad_input) : status;
}

Status Prepare(const Launch& launch, Work& work) {
  const PoolCall& call = launch.call;
  if (Status status = CheckGeometry(launch, kFault); !status.ok()) return status;
  AverageGradient average{launch.PlanesOf(*call.grad_output), launch.PlanesOf(*call.grad_input)};
  if (IsStrict() && OperatorOf(call) == AverageOperator::kAvgPool3dGrad) {
    const bool overlap = WindowsOverlap(call, launch.windows);
    if (Status status = CheckFewElements(call, average.grad_output, average.grad_input, overlap); !status.ok()) {
      return status;
    }
  }
  const AverageGradientKernel kernel = FindAverageGradient(call.grad_output->dtype);
  if (kernel == nullptr) {
    return Fail(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for ", DtypeName(call.grad_output->dtype), " gradients");
  }
  if (Status status = CheckStorages(call); !status.ok()) return status;
  TakeWindows(launch, average);
  average.arithmetic = launch.conduct.arithmetic;
  average.order = launch.conduct.order;
  work.uses = {UseOf("gradOutput", average.grad_output, *call.grad_output, false),
               UseOf(NameOfResult(call), average.grad_input, *call.grad_input, true)};
  work.run = [average = std::move(average), kernel](const Addresses& at) mutable -> Status {
    average.grad_output.storage = at[0];
    average.grad_input.storage = at[1];
    kernel(average);
    return {};
  };
  return {};
}

bool NothingToDo(const PoolCall& call) {
  const auto is_empty = [](const aclTensor* tensor) { return ElementCount(tensor->dims) == 0; };
  if (is_empty(call.grad_output)) return true;
  // aclnnAvgPool3dBackward does not look at the others here.
  if (call.entry.api == Api::kAvgPool3dBackward) return false;
  return is_empty(call.self) || (call.entry.api == Api::kAvgPool2dBackward && is_empty(call.grad_input));
}

void NoteDifferences(const PoolCall& call) {
  if (call.cube_math_type == 0) return;
  TraceNote("CANN may compute with fewer bits by this cubeMathType; this library does not");
}

}  // namespace

Status BuildAverageBackward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks,
                            std::initializer_list<PoolCheck> late_checks) {
  const PoolCall& call = executor.call;
  if (Status status = RunChecks(call, checks); !status.ok()) return status;
  if (NothingToDo(call)) {
    if (ElementCount(call.grad_input->dims) > 0) TraceNote("gradOutput is empty: the result is not written");
    return {};
  }
  if (Status status = RunChecks(call, late_checks); !status.ok()) return status;
  Launch launch = LaunchOf(call);
  if (Status status = CheckGeometryInPhase1(launch); !status.ok()) return status;
  if (Status status = CheckCopy(call); !status.ok()) return status;
  // Windows may lie in the padding of an axis without elements.
  if (ElementCount(call.grad_input->dims) == 0) return {};
  NoteDifferences(call);
  executor.workspace_size = launch.conduct.workspace_size;
  executor.prepare = [launch = std::move(launch)](Work& work) { return Prepare(launch, work); };
  return {};
}

}  // namespace poolgrad::host
