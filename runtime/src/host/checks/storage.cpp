// SPDX-License-Identifier: Apache-2.0

#include "host/checks/storage.h"

#include <algorithm>
#include <utility>

#include "host/mode.h"
#include "host/violations.h"
#include "host/window.h"

namespace poolgrad::host {
namespace {

constexpr int kFault = ACL_ERROR_RT_AICORE_EXCEPTION;
constexpr size_t kAlignment = 32;  // of a tensor's storage, in bytes, by CANN's documents

// Whether all elements of the view lie in the storage.
bool ViewFitsStorage(const aclTensor& tensor) {
  Wide least = tensor.offset;
  Wide greatest = tensor.offset;
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const Wide reach = Wide{tensor.dims[axis] - 1} * tensor.strides[axis];
    (reach < 0 ? least : greatest) += reach;
  }
  return least >= 0 && greatest < ElementCount(tensor.storage_dims);
}

// A sufficient condition for distinct elements: the stride of each axis, in ascending order, exceeds the extent of the
// axes before it.
bool ElementsAreDistinct(const aclTensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // distance, size
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const int64_t stride = tensor.strides[axis];
    if (tensor.dims[axis] > 1) axes.emplace_back(stride < 0 ? -stride : stride, tensor.dims[axis]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [distance, size] : axes) {
    if (distance <= reach) return false;
    reach += distance * (size - 1);
  }
  return true;
}

}  // namespace

Status CheckReadable(const char* name, const aclTensor& tensor) {
  if (ElementCount(tensor.dims) == 0) return {};
  if (tensor.data == nullptr) return Fail(kFault, name, " has no data: its address is null");
  if (reinterpret_cast<uintptr_t>(tensor.data) % ElementSize(tensor.dtype) != 0) {
    return Fail(kFault, name, " has an address that is not aligned to its ", ElementSize(tensor.dtype),
                "-byte elements");
  }
  if (IsStrict() && reinterpret_cast<uintptr_t>(tensor.data) % kAlignment != 0) {
    return Violation(Rule::kMisaligned, kFault, name, " has the address ", tensor.data, ", which is not a multiple of ",
                     kAlignment);
  }
  if (!ViewFitsStorage(tensor)) {
    return Fail(kFault, name, " reaches outside of its storage: a view of ", DimsText(tensor.dims), " with strides ",
                DimsText(tensor.strides), " and offset ", tensor.offset, " on ", DimsText(tensor.storage_dims));
  }
  return {};
}

Status CheckWritable(const char* name, const aclTensor& tensor) {
  if (Status status = CheckReadable(name, tensor); !status.ok()) return status;
  if (ElementsAreDistinct(tensor)) return {};
  return Fail(kFault, name, " has elements that share memory: a view of ", DimsText(tensor.dims), " with strides ",
              DimsText(tensor.strides));
}

}  // namespace poolgrad::host
