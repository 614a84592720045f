// SPDX-License-Identifier: Apache-2.0

// The shape of a tensor argument, and its view as (N, C, D, H, W).
#ifndef POOLGRAD_EP_SHAPE_H_
#define POOLGRAD_EP_SHAPE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace poolgrad::ep {

struct Shape {
  static constexpr std::size_t kMaxRank = 5;

  std::array<std::int64_t, kMaxRank> dims{};  // -1: unknown
  std::size_t rank = 0;                       // 0: unknown

  bool IsKnown() const {
    return rank > 0 && std::all_of(dims.begin(), dims.begin() + rank, [](std::int64_t dim) { return dim >= 0; });
  }

  bool IsEmpty() const { return std::find(dims.begin(), dims.begin() + rank, 0) != dims.begin() + rank; }

  // (N, C, [D, [H,]] W) as five sizes, with 1 for missing spatial axes. The rank must be 3 to 5.
  std::array<std::int64_t, kMaxRank> AsNcdhw() const {
    std::array<std::int64_t, kMaxRank> view{dims[0], dims[1], 1, 1, 1};
    std::copy(dims.begin() + 2, dims.begin() + rank, view.end() - (rank - 2));
    return view;
  }
};

// As "(2, 3, ?, 5)".
std::string ToString(const Shape& shape);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_SHAPE_H_
