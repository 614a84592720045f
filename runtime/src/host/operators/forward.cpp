// SPDX-License-Identifier: Apache-2.0

#include "host/operators/forward.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "host/checks/pools.h"
#include "host/checks/storage.h"
#include "host/kernels/max_pool.h"
#include "host/operators/phases.h"
#include "host/planes.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

// The data of a call that phase 2 needs: the caller's tensors, and copies of the lists.
struct Launch {
  PoolCall call;
  std::vector<WindowAxis> windows;  // none: adaptive
  bool channels_last;
};

Launch LaunchOf(const PoolCall& call) {
  if (call.kernel_size == nullptr) return {call, {}, false};
  // On the other products the operator does not know the order of the axes, and reads any tensor as channels first.
  return {call, WindowAxes(*call.kernel_size, *call.stride, *call.padding, *call.dilation, call.entry.axes),
          call.channels_last() && call.on_ascend950()};
}

Status CheckStorages(const PoolCall& call) {
  if (Status status = CheckReadable("self", *call.self); !status.ok()) return status;
  if (Status status = CheckWritable("out", *call.out); !status.ok()) return status;
  return CheckWritable("indices", *call.indices);
}

// On Ascend950 phase 1 does not check the values of dilation.
Status CheckDilation(const Launch& launch) {
  for (const WindowAxis& window : launch.windows) {
    if (window.dilation > 0) continue;
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, "dilation holds ", window.dilation, "; it has to be at least 1");
  }
  return {};
}

// Nor does it check that every window has an element.
Status CheckWindows(const MaxPool& work) {
  const auto is_empty = [](const Span& span) { return span.count == 0; };
  for (const AxisSpans& axis : work.axes) {
    if (std::none_of(axis.spans.begin(), axis.spans.end(), is_empty)) continue;
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, "a window lies in the padding altogether and has no maximum");
  }
  return {};
}

Status Prepare(const Launch& launch, Work& work) {
  const PoolCall& call = launch.call;
  const auto planes = [&](const aclTensor& tensor) { return PlanesOf(tensor, call.entry.axes, launch.channels_last); };
  MaxPool pool{planes(*call.self), planes(*call.out), planes(*call.indices), {}};
  if (Status status = CheckDilation(launch); !status.ok()) return status;
  pool.axes = SpansOf(pool.self.dims, pool.out.dims, launch.windows);
  if (Status status = CheckWindows(pool); !status.ok()) return status;
  const MaxPoolKernel kernel = FindMaxPool(call.self->dtype, call.indices->dtype);
  if (kernel == nullptr) {
    return Fail(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for ", DtypeName(call.self->dtype), " values with ",
                DtypeName(call.indices->dtype), " indices");
  }
  if (Status status = CheckStorages(call); !status.ok()) return status;
  work.uses = {UseOf("self", pool.self, *call.self, false), UseOf("out", pool.out, *call.out, true),
               UseOf("indices", pool.indices, *call.indices, true)};
  work.run = [pool = std::move(pool), kernel](const Addresses& at) mutable -> Status {
    pool.self.storage = at[0];
    pool.out.storage = at[1];
    pool.indices.storage = at[2];
    kernel(pool);
    return {};
  };
  return {};
}

// Of the functions only aclnnMaxPool3dWithArgmax returns here for an empty out without a look at its shape.
bool NothingToDo(const PoolCall& call) {
  if (ElementCount(call.self->dims) == 0) return true;
  return call.entry.api == Api::kMaxPool3dWithArgmax && ElementCount(call.out->dims) == 0;
}

}  // namespace

Status BuildForward(aclOpExecutor& executor, std::initializer_list<PoolCheck> checks,
                    std::initializer_list<PoolCheck> late_checks) {
  const PoolCall& call = executor.call;
  if (Status status = RunChecks(call, checks); !status.ok()) return status;
  if (NothingToDo(call)) return {};
  if (Status status = RunChecks(call, late_checks); !status.ok()) return status;
  executor.prepare = [launch = LaunchOf(call)](Work& work) { return Prepare(launch, work); };
  return {};
}

}  // namespace poolgrad::host
