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

PartCheck* CheckOf(const TensorView& indices) {
  return indices.type == ACL_INT32 ? CheckPart<std::int32_t> : CheckPart<std::int64_t>;
}

}  // namespace

void CheckIndices(const TensorView& indices, std::int64_t plane) {
  CheckOf(indices)(indices.data, 0, ByteCount(indices), plane);
}

void CheckIndices(const TensorView& indices, std::int64_t plane, Stream& stream, aclrtStream given) {
  PartCheck* const check = CheckOf(indices);
  stream.Read(indices.data, ByteCount(indices), given,
              [=](const void* part, std::size_t offset, std::size_t bytes) { check(part, offset, bytes, plane); });
}

}  // namespace poolgrad::aclnn
