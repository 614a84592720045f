#include "aclnn/indices.h"

#include <stdexcept>
#include <string>

namespace poolgrad::aclnn {
namespace {

template <typename Index>
void CheckIndicesOf(const Index* indices, std::int64_t count, std::int64_t plane) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || indices[i] >= plane) {
      throw std::runtime_error("argmax holds " + std::to_string(indices[i]) + " at flat position " + std::to_string(i) +
                               ", outside the plane of " + std::to_string(plane) + " elements");
    }
  }
}

}  // namespace

void CheckIndices(const TensorView& indices, std::int64_t plane) {
  const std::int64_t count = ElementCount(indices);
  if (indices.type == ACL_INT32) {
    CheckIndicesOf(static_cast<const std::int32_t*>(indices.data), count, plane);
  } else {
    CheckIndicesOf(static_cast<const std::int64_t*>(indices.data), count, plane);
  }
}

}  // namespace poolgrad::aclnn
