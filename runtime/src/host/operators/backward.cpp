// SPDX-License-Identifier: Apache-2.0

#include "host/operators/backward.h"

#include <utility>
#include <vector>

#include "host/checks/geometry.h"
#include "host/checks/known_faults.h"
#include "host/checks/storage.h"
#include "host/kernels/copy_planes.h"
#include "host/kernels/scatter_add.h"
#include "host/operators/conduct.h"
#include "host/operators/phases.h"
#include "host/planes.h"
#include "host/trace.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

// The data of a call that phase 2 needs: the caller's tensors, and copies of the lists.
struct Launch {
  PoolCall call;
  std::vector<WindowAxis> windows;  // none: adaptive
  bool channels_last;
  Conduct conduct;
  Status geometry;  // what phase 2 returns if it is a failure

  Planes PlanesOf(const aclTensor& tensor) const { return host::PlanesOf(tensor, call.entry.axes, channels_last); }
};

Launch LaunchOf(const PoolCall& call) {
  Launch launch{call, {}, false, {}, {}};
  if (call.kernel_size != nullptr) {
    launch.windows = WindowAxes(*call.kernel_size, *call.stride, *call.padding, *call.dilation, call.entry.axes);
  }
  // The only operator that knows the order of the axes; the others read any tensor as channels first.
  launch.channels_last = call.entry.api == Api::kMaxPool2dWithIndicesBackward && call.on_ascend950() &&
                         call.self->format == ACL_FORMAT_NHWC;
  launch.conduct = ConductOf(call, launch.windows);
  return launch;
}

Status CheckStorages(const PoolCall& call) {
  if (Status status = CheckReadable("gradOutput", *call.grad_output); !status.ok()) return status;
  if (Status status = CheckReadable("indices", *call.indices); !status.ok()) return status;
  return CheckWritable("gradInput", *call.grad_input);
}

// Makes the checks of the operator's tiling. Of a failed tiling a function of CANN sees only that there is nothing to
// launch.
Status CheckGeometry(const Launch& launch) {
  constexpr int kCode = ACLNN_ERR_INNER_NULLPTR;
  const PoolCall& call = launch.call;
  if (call.grad_output->rank() != call.self->rank() || call.indices->rank() != call.self->rank()) {
    return Fail(kCode, "gradOutput and indices have ", call.grad_output->rank(), " and ", call.indices->rank(),
                " dimensions; self has ", call.self->rank());
  }
  const Planes self = launch.PlanesOf(*call.self);
  const Planes grad_output = launch.PlanesOf(*call.grad_output);
  const Status pooled = launch.windows.empty() ? CheckPlaneCount(self, grad_output, kCode)
                                               : CheckPooled(self, grad_output, launch.windows, call.ceil_mode, kCode);
  if (!pooled.ok()) return pooled;
  const Status indexed = CheckIndexed(grad_output, launch.PlanesOf(*call.indices), kCode);
  if (!indexed.ok()) TraceNote("the documents have phase 1 refuse indices of another shape; the code does not");
  return indexed;
}

ScatterAddKernel KernelOf(const Launch& launch) {
  const aclDataType values = launch.call.self->dtype;
  if (launch.conduct.copies) {
    TraceNote("windows of one element: gradOutput is copied, indices are not looked at");
    return values == ACL_FLOAT ? CopyFloatPlanes : CopyHalfPlanes;
  }
  return FindScatterAdd(values, launch.call.indices->dtype);
}

Status Prepare(const Launch& launch, Work& work) {
  const PoolCall& call = launch.call;
  if (!launch.geometry.ok()) return launch.geometry;
  ScatterAdd scatter{launch.PlanesOf(*call.grad_output), launch.PlanesOf(*call.indices),
                     launch.PlanesOf(*call.grad_input)};
  scatter.reversed = launch.conduct.reversed;
  if (launch.conduct.looks_at_windows) {
    scatter.windows = SpansOf(scatter.grad_input.dims, scatter.grad_output.dims, launch.windows);
    const Status gaps = CheckGaps(call, launch.windows, scatter.grad_input, scatter.windows);
    if (!gaps.ok()) return gaps;
  }
  const ScatterAddKernel kernel = KernelOf(launch);
  if (kernel == nullptr) {
    return Fail(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for ", DtypeName(call.self->dtype), " gradients with ",
                DtypeName(call.indices->dtype), " indices");
  }
  if (Status status = CheckStorages(call); !status.ok()) return status;
  work.uses = {UseOf("gradOutput", scatter.grad_output, *call.grad_output, false),
               UseOf("indices", scatter.indices, *call.indices, false),
               UseOf("gradInput", scatter.grad_input, *call.grad_input, true)};
  work.run = [scatter = std::move(scatter), kernel](const Addresses& at) mutable {
    scatter.grad_output.storage = at[0];
    scatter.indices.storage = at[1];
    scatter.grad_input.storage = at[2];
    return kernel(scatter);
  };
  return {};
}

bool NothingToDo(const PoolCall& call) {
  for (const aclTensor* tensor : {call.grad_output, call.self, call.indices}) {
    if (ElementCount(tensor->dims) == 0) return true;
  }
  return false;
}

}  // namespace

Status BuildBackward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks) {
  const PoolCall& call = executor.call;
  if (Status status = RunChecks(call, checks); !status.ok()) return status;
  if (NothingToDo(call)) {
    if (ElementCount(call.grad_input->dims) > 0) TraceNote("gradOutput is empty: gradInput is not written");
    return {};
  }
  Launch launch = LaunchOf(call);
  launch.geometry = CheckGeometry(launch);
  if (!launch.geometry.ok() && IsTiledInPhase1(call)) return launch.geometry;
  executor.workspace_size = launch.conduct.workspace_size;
  executor.prepare = [launch = std::move(launch)](Work& work) { return Prepare(launch, work); };
  return {};
}

}  // namespace poolgrad::host
