// SPDX-License-Identifier: Apache-2.0

#include "host/checks/tensors.h"

#include <limits>

#include "host/checks/named_tensor.h"

namespace poolgrad::host {
namespace {

NamedTensor GradOutput(const PoolCall& call) { return {"gradOutput", call.grad_output}; }
NamedTensor Self(const PoolCall& call) { return {"self", call.self}; }
NamedTensor Indices(const PoolCall& call) { return {"indices", call.indices}; }
NamedTensor GradInput(const PoolCall& call) { return {"gradInput", call.grad_input}; }

}  // namespace

Status CheckTensorsGiven(const PoolCall& call) {
  return CheckGiven({GradOutput(call), Self(call), Indices(call), GradInput(call)});
}

Status CheckSelfDtype(const PoolCall& call) { return CheckDtype(call, Self(call), SupportOf(call.entry).values); }

Status CheckIndicesDtype(const PoolCall& call) {
  return CheckDtype(call, Indices(call), SupportOf(call.entry).indices);
}

Status CheckIndicesInt32OutsideAscend950(const PoolCall& call) {
  return call.on_ascend950() ? Status{} : CheckDtype(call, Indices(call), {ACL_INT32});
}

Status CheckGradDtypes(const PoolCall& call) {
  Status status = CheckSameDtype(GradOutput(call), Self(call));
  return status.ok() ? CheckSameDtype(GradInput(call), Self(call)) : status;
}

Status CheckGradFormats(const PoolCall& call) {
  for (const NamedTensor& named : {GradOutput(call), GradInput(call)}) {
    if (Status status = CheckSameFormat(named, Self(call)); !status.ok()) return status;
  }
  return CheckPublicFormat(Self(call));
}

Status CheckIndicesFormat(const PoolCall& call) { return CheckPublicFormat(Indices(call)); }

Status CheckAllFormats(const PoolCall& call) {
  Status status = CheckSameFormat(Indices(call), Self(call));
  return status.ok() ? CheckGradFormats(call) : status;
}

Status CheckRanks(const PoolCall& call) {
  return CheckRanks(call, {GradOutput(call), GradInput(call), Indices(call), Self(call)});
}

Status CheckRanksEqual(const PoolCall& call) {
  for (const NamedTensor& named : {GradOutput(call), Indices(call), GradInput(call)}) {
    if (named.tensor->rank() == call.self->rank()) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, named.name, " has shape ", DimsText(named.tensor->dims),
                "; it has to have as many dimensions as self, ", call.self->rank());
  }
  return {};
}

Status CheckIndicesShape(const PoolCall& call) { return CheckSameShape(Indices(call), GradOutput(call)); }

Status CheckGradInputShape(const PoolCall& call) { return CheckSameShape(GradInput(call), Self(call)); }

Status CheckOnlyBatchEmpty(const PoolCall& call) {
  if (ElementCountOfLast(call.self->dims, call.entry.axes + 1) > 0) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(call.self->dims),
              "; no dimension but the batch may be 0");
}

Status CheckPlaneSize(const PoolCall& call) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (call.on_ascend950() || call.self->rank() < call.entry.axes) return {};
  const int64_t plane = ElementCountOfLast(call.self->dims, call.entry.axes);
  if (plane <= kLimit) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(call.self->dims), ", planes of ", plane,
              " elements; the limit is ", kLimit, ' ', ProductText(call));
}

}  // namespace poolgrad::host
