// SPDX-License-Identifier: Apache-2.0

#include "aclnn/indices.h"

#include <stdexcept>
#include <string>

namespace poolgrad::aclnn {
namespace {

// Checks a part of the tensor that starts at byte `offset`.
template <typename Index>
void CheckPart(const void* part, std::size_t offset, std::size_t bytes, std::int64_t plane) {
  const Index* indices = static_cast<const Index*>(part);
  const std::size_t count = bytes / sizeof(Index);
  for (std::size_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || indices[i] >= plane) {
      throw std::runtime_error("argmax holds " + std::to_string(indices[i]) + " at flat position " +
                               std::to_string(offset / sizeof(Index) + i) + ", outside the plane of " +
                               std::to_string(plane) + " elements");
    }
  }
}

using PartCheck = void(const void* part, std::size_t offset, std::size_t bytes, std::int64_t plane);

// Calls check(indices, the check of a part, elements of a plane of self) if the call reads indices.
template <typename Check>
void WithIndices(const Call& call, Check&& check) {
  const TensorView* self = nullptr;
  const TensorView* indices = nullptr;
  const TensorView* view = call.operands.data();
  for (const auto& [role, use] : call.function.operands) {
    if (role == Role::kSelf) self = view;
    if (role == Role::kIndices && use == Use::kRead) indices = view;
    ++view;
  }
  if (indices == nullptr) return;
  PartCheck* const of_part = indices->type == ACL_INT32 ? CheckPart<std::int32_t> : CheckPart<std::int64_t>;
  check(*indices, of_part, PlaneSize(*self));
}

}  // namespace

void CheckIndices(const Call& call) {
  WithIndices(call, [](const TensorView& indices, PartCheck* check, std::int64_t plane) {
    check(indices.data, 0, ByteCount(indices), plane);
  });
}

void CheckIndices(const Call& call, Stream& stream, aclrtStream given) {
  WithIndices(call, [&](const TensorView& indices, PartCheck* check, std::int64_t plane) {
    stream.Read(indices.data, ByteCount(indices), given,
                [=](const void* part, std::size_t offset, std::size_t bytes) { check(part, offset, bytes, plane); });
  });
}

}  // namespace poolgrad::aclnn
