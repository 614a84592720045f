#include "host/operators/backward.h"

#include <memory>
#include <vector>

#include "host/checks/geometry.h"
#include "host/checks/storage.h"
#include "host/kernels/scatter_add.h"
#include "host/planes.h"
#include "host/stream.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

// What phase 2 needs of a call; tensors are the caller's, lists are copied.
struct Launch {
  PoolCall call;
  std::vector<WindowAxis> windows;  // none: adaptive
  bool channels_last;
};

Launch LaunchOf(const PoolCall& call) {
  Launch launch{call, {}, false};
  if (call.kernel_size != nullptr) {
    launch.windows = WindowAxes(*call.kernel_size, *call.stride, *call.padding, *call.dilation, call.entry.axes);
  }
  // The only operator that is told the order of the axes; the others read any tensor as channels first.
  launch.channels_last = call.entry.api == Api::kMaxPool2dWithIndicesBackward && call.on_ascend950() &&
                         call.self->format == ACL_FORMAT_NHWC;
  return launch;
}

Status CheckStorages(const PoolCall& call) {
  if (Status status = CheckReadable("gradOutput", *call.grad_output); !status.ok()) return status;
  if (Status status = CheckReadable("indices", *call.indices); !status.ok()) return status;
  return CheckWritable("gradInput", *call.grad_input);
}

// Ascend950 finds shapes that do not fit when it infers shapes, the other products when they tile.
Status CheckGeometry(const Launch& launch, const Planes& self, const ScatterAdd& work) {
  const PoolCall& call = launch.call;
  const int code = call.on_ascend950() ? ACLNN_ERR_INNER_INFERSHAPE_ERROR : ACLNN_ERR_INNER_TILING_ERROR;
  if (call.grad_output->rank() != call.self->rank() || call.indices->rank() != call.self->rank()) {
    return Fail(code, "gradOutput and indices have ", call.grad_output->rank(), " and ", call.indices->rank(),
                " dimensions; self has ", call.self->rank());
  }
  const Status pooled = launch.windows.empty()
                            ? CheckAdaptivelyPooled(self, work.grad_output, code)
                            : CheckPooled(self, work.grad_output, launch.windows, call.ceil_mode, code);
  return pooled.ok() ? CheckIndexed(work.grad_output, work.indices, code) : pooled;
}

Status Run(const Launch& launch, aclrtStream stream) {
  const PoolCall& call = launch.call;
  const auto planes = [&](const aclTensor& tensor) { return PlanesOf(tensor, call.entry.axes, launch.channels_last); };
  const ScatterAdd work{planes(*call.grad_output), planes(*call.indices), planes(*call.grad_input)};
  if (Status status = CheckGeometry(launch, planes(*call.self), work); !status.ok()) return status;
  const ScatterAddKernel kernel = FindScatterAdd(call.self->dtype, call.indices->dtype);
  if (kernel == nullptr) {
    return Fail(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for ", DtypeName(call.self->dtype), " gradients with ",
                DtypeName(call.indices->dtype), " indices");
  }
  if (Status status = CheckStorages(call); !status.ok()) return status;
  return Submit(stream, [=] { return kernel(work); });
}

bool NothingToDo(const PoolCall& call) {
  for (const aclTensor* tensor : {call.grad_output, call.self, call.indices}) {
    if (ElementCount(tensor->dims) == 0) return true;
  }
  return false;
}

}  // namespace

Status PlanBackward(const PoolCall& call, std::initializer_list<PoolCheck> checks, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  if (workspace_size == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "workspaceSize is null");
  if (executor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "executor is null");
  for (const PoolCheck check : checks) {
    if (Status status = check(call); !status.ok()) return status;
  }
  auto planned = std::make_unique<aclOpExecutor>();
  if (!NothingToDo(call)) {
    planned->launch = [launch = LaunchOf(call)](aclrtStream stream) { return Run(launch, stream); };
  }
  *workspace_size = planned->workspace_size;
  *executor = planned.release();
  return {};
}

}  // namespace poolgrad::host
