// SPDX-License-Identifier: Apache-2.0

#include "host/checks/averages.h"

#include <algorithm>

#include "host/checks/named_tensor.h"
#include "host/checks/windows.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

NamedTensor GradOutput(const PoolCall& call) { return {"gradOutput", call.grad_output}; }
NamedTensor Self(const PoolCall& call) { return {"self", call.self}; }
NamedTensor Result(const PoolCall& call) { return {NameOfResult(call), call.grad_input}; }

// The dimensions before the spatial axes of the entry are self's.
Status CheckLeading(const PoolCall& call, NamedTensor checked) {
  const std::vector<int64_t>& dims = checked.tensor->dims;
  const std::vector<int64_t>& expected = call.self->dims;
  if (std::equal(dims.begin(), dims.end() - call.entry.axes, expected.begin())) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has shape ", DimsText(dims), ", and self ", DimsText(expected),
              "; the dimensions before the last ", call.entry.axes, " have to be equal");
}

Status CheckSameRank(NamedTensor checked, NamedTensor reference) {
  if (checked.tensor->rank() == reference.tensor->rank()) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, checked.name, " has shape ", DimsText(checked.tensor->dims),
              "; it has to have as many dimensions as ", reference.name, ", ", reference.tensor->rank());
}

Status CheckAtMost(const char* name, const aclIntArray& list, int64_t most) {
  if (list.size() <= most) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, name, " is ", DimsText(list.values), "; it has to have at most ", most,
              " values");
}

}  // namespace

const char* NameOfResult(const PoolCall& call) {
  switch (call.entry.api) {
    case Api::kAvgPool2dBackward:
      return "gradInput";
    case Api::kAvgPool3dBackward:
      return "output";
    default:
      return "out";
  }
}

bool HasOneWindow(const PoolCall& call) { return ElementCountOfLast(call.grad_output->dims, call.entry.axes) == 1; }

Status CheckAverageTensorsGiven(const PoolCall& call) {
  return CheckGiven({GradOutput(call), Self(call), Result(call)});
}

Status CheckAverageListsGiven(const PoolCall& call) {
  if (call.kernel_size == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "kernelSize is null");
  if (call.stride == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "stride is null");
  if (call.padding == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, "padding is null");
  return {};
}

Status CheckAverageInputDtypes(const PoolCall& call) {
  const DtypeSet supported = SupportOf(call.entry).values;
  Status status = CheckDtype(call, GradOutput(call), supported);
  return status.ok() ? CheckDtype(call, Self(call), supported) : status;
}

Status CheckAverageDtypes(const PoolCall& call) {
  Status status = CheckAverageInputDtypes(call);
  return status.ok() ? CheckDtype(call, Result(call), SupportOf(call.entry).values) : status;
}

Status CheckResultDtype(const PoolCall& call) { return CheckSameDtype(Result(call), GradOutput(call)); }

Status CheckInputDtypesEqual(const PoolCall& call) { return CheckSameDtype(GradOutput(call), Self(call)); }

Status CheckAdaptive3dDtypes(const PoolCall& call) {
  DtypeSet supported = SupportOf(call.entry).values;
  if (!supported.IsEmpty() && HasOneWindow(call)) supported = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
  for (const NamedTensor& named : {GradOutput(call), Self(call)}) {
    if (Status status = CheckDtype(call, named, supported); !status.ok()) return status;
  }
  if (Status status = CheckInputDtypesEqual(call); !status.ok()) return status;
  return CheckSameDtype(Result(call), Self(call));
}

Status CheckAvgPool2dFormats(const PoolCall& call) {
  const auto is_one_of = [](NamedTensor named, std::initializer_list<aclFormat> formats) -> Status {
    const aclFormat format = named.tensor->format;
    if (std::find(formats.begin(), formats.end(), format) != formats.end()) return {};
    return Fail(ACLNN_ERR_PARAM_INVALID, named.name, " has format ", FormatName(format), "; use NCHW");
  };
  for (const NamedTensor& named : {GradOutput(call), Self(call), Result(call)}) {
    Status status = is_one_of(named, {ACL_FORMAT_NCHW, ACL_FORMAT_NCL});
    if (!status.ok()) return status;
  }
  if (call.grad_output->rank() != 4) return {};
  Status status = is_one_of(GradOutput(call), {ACL_FORMAT_NCHW});
  return status.ok() ? is_one_of(Result(call), {ACL_FORMAT_NCHW}) : status;
}

Status CheckResultFormat(const PoolCall& call) {
  Status status = CheckSameFormat(Result(call), GradOutput(call));
  return status.ok() ? CheckPublicFormat(GradOutput(call)) : status;
}

Status CheckInputFormats(const PoolCall& call) {
  Status status = CheckSameFormat(GradOutput(call), Self(call));
  return status.ok() ? CheckPublicFormat(GradOutput(call)) : status;
}

Status CheckAverageFormats(const PoolCall& call) {
  Status status = CheckInputFormats(call);
  return status.ok() ? CheckSameFormat(Result(call), Self(call)) : status;
}

Status CheckAvgPool2dRanks(const PoolCall& call) {
  Status status = CheckRanks(call, {GradOutput(call), Result(call)});
  return status.ok() ? CheckSameRank(Result(call), GradOutput(call)) : status;
}

Status CheckAvgPool3dRanks(const PoolCall& call) {
  if (Status status = CheckRanks(call, {GradOutput(call)}); !status.ok()) return status;
  Status status = CheckSameRank(Self(call), GradOutput(call));
  return status.ok() ? CheckSameRank(Result(call), GradOutput(call)) : status;
}

Status CheckAdaptive2dShapes(const PoolCall& call) {
  if (Status status = CheckSameRank(GradOutput(call), Self(call)); !status.ok()) return status;
  if (Status status = CheckRanks(call, {Result(call)}); !status.ok()) return status;
  if (Status status = CheckSameRank(Result(call), Self(call)); !status.ok()) return status;
  Status status = CheckLeading(call, Result(call));
  return status.ok() ? CheckLeading(call, GradOutput(call)) : status;
}

Status CheckAdaptive3dShapes(const PoolCall& call) {
  if (Status status = CheckRanks(call, {Self(call)}); !status.ok()) return status;
  if (Status status = CheckSameRank(GradOutput(call), Self(call)); !status.ok()) return status;
  if (Status status = CheckSameRank(Result(call), Self(call)); !status.ok()) return status;
  const std::vector<int64_t>& dims = call.self->dims;
  // On Ascend950 the first dimension is not looked at.
  const int64_t first = call.on_ascend950() ? 1 : 0;
  if (std::any_of(dims.begin() + first, dims.end(), [](int64_t dim) { return dim <= 0; })) {
    return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(dims), "; no dimension may be 0",
                first == 0 ? "" : " but the first");
  }
  if (!std::equal(dims.begin() + first, dims.end(), call.grad_input->dims.begin() + first)) {
    return CheckSameShape(Result(call), Self(call));
  }
  if (Status status = CheckLeading(call, GradOutput(call)); !status.ok()) return status;
  if (ElementCountOfLast(call.grad_output->dims, call.entry.axes) > 0) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "gradOutput has shape ", DimsText(call.grad_output->dims), "; none of the last ",
              call.entry.axes, " dimensions may be 0");
}

Status CheckResultShape(const PoolCall& call) { return CheckSameShape(Result(call), Self(call)); }

Status CheckAvgPool2dLists(const PoolCall& call) {
  if (call.kernel_size->values.empty()) return Fail(ACLNN_ERR_PARAM_INVALID, "kernelSize has no value");
  if (Status status = CheckAtMost("kernelSize", *call.kernel_size, 2); !status.ok()) return status;
  if (Status status = CheckKernelValues(call); !status.ok()) return status;
  if (Status status = CheckAtMost("stride", *call.stride, 2); !status.ok()) return status;
  if (Status status = CheckStrideValues(call); !status.ok()) return status;
  return CheckAtMost("padding", *call.padding, 2);
}

Status CheckAvgPool2dPadding(const PoolCall& call) {
  if (call.padding->values.empty()) return Fail(ACLNN_ERR_PARAM_INVALID, "padding has no value");
  for (int64_t axis = 0; axis < call.entry.axes; ++axis) {
    const int64_t padding = ValueOfAxis(*call.padding, axis);
    const int64_t limit = ValueOfAxis(*call.kernel_size, axis) / 2;
    if (padding <= limit) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, "padding is ", DimsText(call.padding->values), "; on spatial axis ", axis,
                " it has to be at most ", limit, ", half the kernel");
  }
  return {};
}

Status CheckCubeMathType(const PoolCall& call) {
  const int type = call.cube_math_type;
  if (type >= 0 && type <= 3) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "cubeMathType is ", type, "; it has to be 0 to 3");
}

Status CheckAvgPool3dLists(const PoolCall& call) {
  if (Status status = CheckKernelLength(call); !status.ok()) return status;
  if (Status status = CheckPaddingLength(call); !status.ok()) return status;
  return CheckStrideLength(call);
}

Status CheckAvgPool3dWindow(const PoolCall& call) {
  if (Status status = CheckKernelValues(call); !status.ok()) return status;
  if (Status status = CheckStrideValues(call); !status.ok()) return status;
  return CheckPaddingValues(call);
}

}  // namespace poolgrad::host
