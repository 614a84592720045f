// SPDX-License-Identifier: Apache-2.0

#include "host/checks/pools.h"

#include <algorithm>
#include <limits>

#include "host/checks/named_tensor.h"
#include "host/trace.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

constexpr int64_t kInt32Limit = std::numeric_limits<int32_t>::max();

NamedTensor Self(const PoolCall& call) { return {"self", call.self}; }
NamedTensor Out(const PoolCall& call) { return {"out", call.out}; }
NamedTensor Indices(const PoolCall& call) { return {"indices", call.indices}; }

Status CheckFormatAmong(const PoolCall& call, NamedTensor checked, std::initializer_list<aclFormat> formats,
                        int code = ACLNN_ERR_PARAM_INVALID) {
  const aclFormat format = checked.tensor->format;
  if (std::find(formats.begin(), formats.end(), format) != formats.end()) return {};
  return Fail(code, checked.name, " has format ", FormatName(format), ", which is not supported ", ProductText(call));
}

Status CheckPlane(const PoolCall& call, int code) {
  const int64_t plane = ElementCountOfLast(call.self->dims, call.entry.axes);
  if (plane <= kInt32Limit) return {};
  return Fail(code, "self has shape ", DimsText(call.self->dims), ", planes of ", plane,
              " elements; the limit for INT32 indices is ", kInt32Limit);
}

// self's dims with other spatial sizes.
std::vector<int64_t> PooledDims(const PoolCall& call, const std::vector<int64_t>& sizes, bool channels_last) {
  std::vector<int64_t> dims = call.self->dims;
  std::copy(sizes.begin(), sizes.end(), dims.end() - call.entry.axes - (channels_last ? 1 : 0));
  return dims;
}

// The number of windows along each axis; -1 for a number above int64, which no tensor has.
std::vector<int64_t> PooledSizes(const PoolCall& call, bool channels_last) {
  const auto windows = WindowAxes(*call.kernel_size, *call.stride, *call.padding, *call.dilation, call.entry.axes);
  const auto first = call.self->dims.end() - call.entry.axes - (channels_last ? 1 : 0);
  std::vector<int64_t> sizes;
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    const Wide size = OutputSize(first[static_cast<int64_t>(axis)], windows[axis], call.ceil_mode);
    sizes.push_back(size <= std::numeric_limits<int64_t>::max() ? static_cast<int64_t>(std::max<Wide>(size, -1)) : -1);
  }
  return sizes;
}

Status CheckExactDims(NamedTensor checked, const std::vector<int64_t>& expected, int code) {
  if (checked.tensor->dims == expected) return {};
  return Fail(code, checked.name, " has shape ", DimsText(checked.tensor->dims), "; pooling self gives ",
              DimsText(expected));
}

// One element may have any shape.
Status CheckDims(NamedTensor checked, const std::vector<int64_t>& expected, int code) {
  const bool one_element = ElementCount(checked.tensor->dims) == 1 && ElementCount(expected) == 1;
  return one_element ? Status{} : CheckExactDims(checked, expected, code);
}

}  // namespace

Status CheckProduct(const PoolCall& call) {
  if (!SupportOf(call.entry).values.IsEmpty()) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "the function does not exist ", ProductText(call));
}

Status CheckPoolTensorsGiven(const PoolCall& call) { return CheckGiven({Self(call), Out(call), Indices(call)}); }

Status CheckOutputSizeGiven(const PoolCall& call) {
  return call.output_size != nullptr ? Status{} : Fail(ACLNN_ERR_PARAM_NULLPTR, "outputSize is null");
}

Status CheckOutDtype(const PoolCall& call) { return CheckSameDtype(Out(call), Self(call)); }

Status CheckOutFormat(const PoolCall& call) {
  Status status = CheckSameFormat(Out(call), Self(call));
  return status.ok() ? CheckPublicFormat(Self(call)) : status;
}

Status CheckPoolFormats(const PoolCall& call) {
  Status status = CheckSameFormat(Indices(call), Self(call));
  return status.ok() ? CheckOutFormat(call) : status;
}

Status CheckMaxPool3dFormat(const PoolCall& call) {
  if (!call.on_ascend950()) return {};
  return CheckFormatAmong(call, Self(call), {ACL_FORMAT_NDHWC, ACL_FORMAT_NCDHW, ACL_FORMAT_NCHW, ACL_FORMAT_ND});
}

// These products check the shapes as channels last, and compute them as channels first.
Status CheckMaxPool3dLayout(const PoolCall& call) {
  if (call.on_ascend950() || call.self->format != ACL_FORMAT_NDHWC) return {};
  return CheckFormatAmong(call, Self(call), {});
}

Status CheckAdaptive3dFormat(const PoolCall& call) {
  if (call.on_ascend950() && call.self->format == ACL_FORMAT_ND) return {};
  return CheckFormatAmong(call, Self(call), {ACL_FORMAT_NCDHW, ACL_FORMAT_NCHW});
}

Status CheckPoolRanks(const PoolCall& call) { return CheckRanks(call, {Out(call), Indices(call), Self(call)}); }

Status CheckAxesNotEmpty(const PoolCall& call) {
  if (ElementCountOfLast(call.self->dims, call.self->rank() - 1) > 0) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "self has shape ", DimsText(call.self->dims),
              "; no dimension but the first may be 0");
}

Status CheckPooledShape(const PoolCall& call) {
  const bool channels_last = call.channels_last();
  const std::vector<int64_t> sizes = PooledSizes(call, channels_last);
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size <= 0; })) {
    return Fail(ACLNN_ERR_PARAM_INVALID, "the windows do not fit into self: they give out a plane of ",
                DimsText(sizes));
  }
  const std::vector<int64_t> expected = PooledDims(call, sizes, channels_last);
  const auto check = call.entry.api == Api::kMaxPool2dWithIndices ? CheckExactDims : CheckDims;
  Status status = check(Out(call), expected, ACLNN_ERR_PARAM_INVALID);
  return status.ok() ? check(Indices(call), expected, ACLNN_ERR_PARAM_INVALID) : status;
}

Status CheckInt32PlaneSize(const PoolCall& call) {
  return call.indices->dtype == ACL_INT32 ? CheckPlane(call, ACLNN_ERR_PARAM_INVALID) : Status{};
}

Status CheckPoolPlaneSize(const PoolCall& call) {
  return call.on_ascend950() ? Status{} : CheckPlane(call, ACLNN_ERR_INNER_NULLPTR);
}

Status CheckOutputSizeLength(const PoolCall& call) {
  const int64_t size = call.output_size->size();
  const bool may_be_short = call.entry.axes == 3 && call.on_ascend950();
  if (size == call.entry.axes || (may_be_short && size <= 1)) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "outputSize is ", DimsText(call.output_size->values), "; it has to have ",
              call.entry.axes, " values", may_be_short ? ", or 1, or none" : "");
}

Status CheckOutputSizeValues(const PoolCall& call) {
  const std::vector<int64_t>& values = call.output_size->values;
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value > 0; })) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "outputSize is ", DimsText(values), "; no value may be less than 1");
}

Status CheckIndicesHaveOutShape(const PoolCall& call) { return CheckSameShape(Indices(call), Out(call)); }

Status CheckIndicesHaveOutShapeAtFirst(const PoolCall& call) {
  const std::vector<int64_t>& out = call.out->dims;
  const std::vector<int64_t>& indices = call.indices->dims;
  if (std::equal(out.begin(), out.begin() + call.output_size->size(), indices.begin())) return {};
  return Fail(ACLNN_ERR_PARAM_INVALID, "indices has shape ", DimsText(indices), "; it has to be that of out, ",
              DimsText(out));
}

Status CheckAdaptiveOutShape(const PoolCall& call) {
  const std::vector<int64_t> pooled = PooledDims(call, AdaptiveSizes(call), /*channels_last=*/false);
  if (call.entry.api == Api::kAdaptiveMaxPool3d) return CheckDims(Out(call), pooled, ACLNN_ERR_PARAM_INVALID);
  Status status = CheckDims(Out(call), pooled, ACLNN_ERR_INNER_NULLPTR);
  if (!status.ok()) TraceNote("the documents have 161002 for an out of another shape; the code has 561103");
  return status;
}

Status CheckAdaptiveIndicesShape(const PoolCall& call) {
  const std::vector<int64_t> pooled = PooledDims(call, AdaptiveSizes(call), /*channels_last=*/false);
  return CheckDims(Indices(call), pooled, ACLNN_ERR_PARAM_INVALID);
}

Status CheckAdaptive2dFormat(const PoolCall& call) {
  const bool is_double = call.self->dtype == ACL_DOUBLE && call.self->rank() == 4;
  if (!is_double && call.self->format != ACL_FORMAT_NHWC) return {};
  return CheckFormatAmong(call, Self(call), {ACL_FORMAT_NCHW}, ACLNN_ERR_INNER_NULLPTR);
}

std::vector<int64_t> AdaptiveSizes(const PoolCall& call) {
  const std::vector<int64_t>& given = call.output_size->values;
  if (given.empty()) return {call.self->dims.end() - call.entry.axes, call.self->dims.end()};
  if (given.size() == 1) return std::vector<int64_t>(static_cast<size_t>(call.entry.axes), given[0]);
  return given;
}

}  // namespace poolgrad::host
