// SPDX-License-Identifier: Apache-2.0

// aclnnInplaceCopy between strided tensors of one type, which torch_npu calls to make a tensor contiguous.

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "cann.h"
#include "host/tensor.h"

namespace {

// A tensor's view of memory, in bytes.
struct View {
  explicit View(const aclTensor& tensor)
      : dims(tensor.dims), element_size(ElementSize(tensor.dtype)), dtype(tensor.dtype) {
    for (const int64_t stride : tensor.strides) strides.push_back(stride * element_size);
    address = static_cast<std::byte*>(tensor.data) + tensor.offset * element_size;
  }

  int64_t count() const { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }

  // From the first to behind the last element.
  int64_t extent() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) last += (dims[axis] - 1) * strides[axis];
    return last + element_size;
  }

  // Where each element begins, in row-major order.
  std::vector<int64_t> Positions() const {
    std::vector<int64_t> positions{0};
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      std::vector<int64_t> further;
      further.reserve(positions.size() * dims[axis]);
      for (const int64_t position : positions) {
        for (int64_t index = 0; index < dims[axis]; ++index) further.push_back(position + index * strides[axis]);
      }
      positions = std::move(further);
    }
    return positions;
  }

  static int64_t ElementSize(aclDataType dtype) {
    switch (dtype) {
      case ACL_FLOAT16:
      case ACL_BF16:
        return 2;
      case ACL_FLOAT:
      case ACL_INT32:
        return 4;
      case ACL_INT64:
      case ACL_DOUBLE:
        return 8;
      case ACL_INT8:
      case ACL_UINT8:
      case ACL_BOOL:
        return 1;
      default:
        throw std::invalid_argument("the stand-in for CANN copies no elements of type " + std::to_string(dtype));
    }
  }

  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int64_t element_size;
  aclDataType dtype;
  std::byte* address;
};

struct Copy {
  Copy(const aclTensor& to_tensor, const aclTensor& from_tensor) : to(to_tensor), from(from_tensor) {
    if (to.dims != from.dims || to.dtype != from.dtype) {
      throw std::invalid_argument("the stand-in for CANN copies no tensor to one of other sizes or another type");
    }
    if (to.count() > 0 && to.extent() != to.count() * to.element_size) {
      throw std::invalid_argument("the stand-in for CANN copies to no tensor with gaps");
    }
  }

  View to;
  View from;
  std::vector<std::byte> read = {};
};

void Queue(const std::shared_ptr<Copy>& copy, aclrtStream stream) {
  if (copy->to.count() == 0) return;
  stand_in::Submit(stream, "src", copy->from.address, copy->from.extent(), false, [copy](void* memory) {
    const auto* const begin = static_cast<const std::byte*>(memory);
    copy->read.assign(begin, begin + copy->from.extent());
  });
  stand_in::Submit(stream, "selfRef", copy->to.address, copy->to.extent(), true, [copy](void* memory) {
    const std::vector<int64_t> to = copy->to.Positions();
    const std::vector<int64_t> from = copy->from.Positions();
    for (size_t index = 0; index < to.size(); ++index) {
      std::memcpy(static_cast<std::byte*>(memory) + to[index], copy->read.data() + from[index], copy->to.element_size);
    }
  });
}

}  // namespace

STAND_IN_FUNCTION(aclnnInplaceCopyGetWorkspaceSize)
aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* self_ref, const aclTensor* src, uint64_t* workspace_size,
                                             aclOpExecutor** executor) {
  return stand_in::Call(__func__, nullptr, [&] {
    *executor = reinterpret_cast<aclOpExecutor*>(new Copy(*self_ref, *src));
    *workspace_size = 0;
  });
}

STAND_IN_FUNCTION(aclnnInplaceCopy)
aclnnStatus aclnnInplaceCopy(void* /*workspace*/, uint64_t /*workspace_size*/, aclOpExecutor* executor,
                             aclrtStream stream) {
  return stand_in::Call(__func__, stream,
                        [&] { Queue(std::shared_ptr<Copy>(reinterpret_cast<Copy*>(executor)), stream); });
}
