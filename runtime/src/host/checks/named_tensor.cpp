// SPDX-License-Identifier: Apache-2.0

#include "host/checks/named_tensor.h"

#include <algorithm>
#include <iterator>

namespace poolgrad::host {
namespace {

constexpr aclFormat kPrivateFormats[] = {
    ACL_FORMAT_NC1HWC0,         ACL_FORMAT_FRACTAL_Z,        ACL_FORMAT_NDC1HWC0,         ACL_FRACTAL_Z_3D,
    ACL_FORMAT_FRACTAL_NZ,      ACL_FORMAT_NC1HWC0_C04,      ACL_FORMAT_FRACTAL_NZ_C0_2,  ACL_FORMAT_FRACTAL_NZ_C0_4,
    ACL_FORMAT_FRACTAL_NZ_C0_8, ACL_FORMAT_FRACTAL_NZ_C0_16, ACL_FORMAT_FRACTAL_NZ_C0_32,
};

}  // namespace

std::string ProductText(const PoolCall& call) {
  if (!call.entry.product) return "(the calling thread has no current device: call aclrtSetDevice first)";
  return std::string("on ") + ProductName(*call.entry.product);
}

Status CheckDtype(const PoolCall& call, NamedTensor checked, const DtypeSet& supported) {
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

Status CheckGiven(std::initializer_list<NamedTensor> tensors) {
  for (const NamedTensor& named : tensors) {
    if (named.tensor == nullptr) return Fail(ACLNN_ERR_PARAM_NULLPTR, named.name, " is null");
  }
  return {};
}

Status CheckRanks(const PoolCall& call, std::initializer_list<NamedTensor> tensors) {
  const int64_t unbatched = call.entry.axes + 1;
  for (const NamedTensor& named : tensors) {
    const int64_t rank = named.tensor->rank();
    if (rank == unbatched || rank == unbatched + 1) continue;
    return Fail(ACLNN_ERR_PARAM_INVALID, named.name, " has shape ", DimsText(named.tensor->dims), "; it has to have ",
                unbatched, " or ", unbatched + 1, " dimensions");
  }
  return {};
}

}  // namespace poolgrad::host
