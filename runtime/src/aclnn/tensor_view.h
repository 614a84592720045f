// SPDX-License-Identifier: Apache-2.0

// A tensor as an argument for aclnn: type, sizes and address.
#ifndef POOLGRAD_ACLNN_TENSOR_VIEW_H_
#define POOLGRAD_ACLNN_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/acl.h"

namespace poolgrad::aclnn {

constexpr std::size_t kMaxRank = 5;

// Contiguous, of rank 4 (N, C, H, W) or 5 (N, C, D, H, W).
struct TensorView {
  aclDataType type;
  std::array<std::int64_t, kMaxRank> dims;  // 0 beyond the rank
  std::size_t rank;
  void* data;
};

std::int64_t ElementCount(const TensorView& view);
std::size_t ByteCount(const TensorView& view);

// In elements; the values beyond the rank are 0.
std::array<std::int64_t, kMaxRank> ContiguousStrides(const TensorView& view);

// The number of elements of one (n, c) plane.
std::int64_t PlaneSize(const TensorView& view);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_TENSOR_VIEW_H_
