#include "host/checks/tensors.h"

#include <algorithm>
#include <limits>

#include "host/checks/support.h"

namespace poolgrad::host {
namespace {

struct NamedTensor {
  const char* name;
  const aclTensor* tensor;
};

constexpr aclFormat kPrivateFormats[] = {
    ACL_FORMAT_NC1HWC0,         ACL_FORMAT_FRACTAL_Z,        ACL_FORMAT_NDC1HWC0,         ACL_FRACTAL_Z_3D,
    ACL_FORMAT_FRACTAL_NZ,      ACL_FORMAT_NC1HWC0_C04,      ACL_FORMAT_FRACTAL_NZ_C0_2,  ACL_FORMAT_FRACTAL_NZ_C0_4,
    ACL_FORMAT_FRACTAL_NZ_C0_8, ACL_FORMAT_FRACTAL_NZ_C0_16, ACL_FORMAT_FRACTAL_NZ_C0_32,
};

NamedTensor GradOutput(const BackwardCall& call) { return {"gradOutput", call.grad_output}; }
NamedTensor Self(const BackwardCall& call) { return {"self", call.self}; }
NamedTensor Indices(const BackwardCall& call) { return {"indices", call.indices}; }
NamedTensor GradInput(const BackwardCall& call) { return {"gradInput", call.grad_input}; }

// For the end of a message about what a dtype table lacks.
std::string ProductText(const BackwardCall& call) {
  if (!call.entry.product) return "(the calling thread has no current device: call aclrtSetDevice first)";
  return std::string("on ") + ProductName(*call.entry.product);
}

Status CheckDtype(const BackwardCall& call, NamedTensor checked, const DtypeSet& supported) {
  if (supported.Contains(checked.tensor->dtype)) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has dtype ", DtypeName(checked.tensor->dtype),
              "; supported: ", supported.Text(), ' ', ProductText(call));
}

Status CheckSameDtype(NamedTensor checked, NamedTensor reference) {
  if (checked.tensor->dtype == reference.tensor->dtype) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has dtype ", DtypeName(checked.tensor->dtype),
              "; it has to be that of ", reference.name, ", ", DtypeName(reference.tensor->dtype));
}

Status CheckSameFormat(NamedTensor checked, NamedTensor reference) {
  if (checked.tensor->format == reference.tensor->format) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has format ", FormatName(checked.tensor->format),
              "; it has to be that of ", reference.name, ", ", FormatName(reference.tensor->format));
}

Status CheckSameShape(NamedTensor checked, NamedTensor reference) {
  if (checked.tensor->dims == reference.tensor->dims) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has shape ", DimsText(checked.tensor->dims),
              "; it has to be that of ", reference.name, ", ", DimsText(reference.tensor->dims));
}

Status CheckPublicFormat(NamedTensor checked) {
  const aclFormat format = checked.tensor->format;
  const auto end = std::end(kPrivateFormats);
  if (std::find(std::begin(kPrivateFormats), end, format) == end) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has the private format ", FormatName(format), "; use ND");
}

}  // namespace

Status CheckTensorsGiven(const BackwardCall& call) {
  for (const NamedTensor& named : {GradOutput(call), Self(call), Indices(call), GradInput(call)}) {
    if (named.tensor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, named.name, " is null");
  }
  return {};
}

Status CheckSelfDtype(const BackwardCall& call) { return CheckDtype(call, Self(call), SupportOf(call.entry).values); }

Status CheckIndicesDtype(const BackwardCall& call) {
  return CheckDtype(call, Indices(call), SupportOf(call.entry).indices);
}

Status CheckIndicesInt32OutsideAscend950(const BackwardCall& call) {
  return call.on_ascend950() ? Status{} : CheckDtype(call, Indices(call), {ACL_INT32});
}

Status CheckGradDtypes(const BackwardCall& call) {
  Status status = CheckSameDtype(GradOutput(call), Self(call));
  return status.ok() ? CheckSameDtype(GradInput(call), Self(call)) : status;
}

Status CheckGradFormats(const BackwardCall& call) {
  for (const NamedTensor& named : {GradOutput(call), GradInput(call)}) {
    if (Status status = CheckSameFormat(named, Self(call)); !status.ok()) return status;
  }
  return CheckPublicFormat(Self(call));
}

Status CheckAllFormats(const BackwardCall& call) {
  Status status = CheckSameFormat(Indices(call), Self(call));
  return status.ok() ? CheckGradFormats(call) : status;
}

Status CheckRanks(const BackwardCall& call) {
  const int64_t unbatched = call.entry.axes + 1;
  for (const NamedTensor& named : {GradOutput(call), GradInput(call), Indices(call), Self(call)}) {
    const int64_t rank = named.tensor->rank();
    if (rank == unbatched || rank == unbatched + 1) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, named.name, " has shape ", DimsText(named.tensor->dims), "; it has to have ",
                unbatched, " or ", unbatched + 1, " dimensions");
  }
  return {};
}

Status CheckRanksEqual(const BackwardCall& call) {
  for (const NamedTensor& named : {GradOutput(call), Indices(call), GradInput(call)}) {
    if (named.tensor->rank() == call.self->rank()) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, named.name, " has shape ", DimsText(named.tensor->dims),
                "; it has to have as many dimensions as self, ", call.self->rank());
  }
  return {};
}

Status CheckIndicesShape(const BackwardCall& call) { return CheckSameShape(Indices(call), GradOutput(call)); }

Status CheckGradInputShape(const BackwardCall& call) { return CheckSameShape(GradInput(call), Self(call)); }

Status CheckOnlyBatchEmpty(const BackwardCall& call) {
  if (ElementCountOfLast(call.self->dims, call.entry.axes + 1) > 0) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(call.self->dims),
              "; no dimension but the batch may be 0");
}

Status CheckPlaneSize(const BackwardCall& call) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (call.on_ascend950() || call.self->rank() < call.entry.axes) return {};
  const int64_t plane = ElementCountOfLast(call.self->dims, call.entry.axes);
  if (plane <= kLimit) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(call.self->dims), ", planes of ", plane,
              " elements; the limit is ", kLimit, ' ', ProductText(call));
}

}  // namespace poolgrad::host
