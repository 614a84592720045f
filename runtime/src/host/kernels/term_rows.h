// SPDX-License-Identifier: Apache-2.0

// Which terms of the windows along an axis an element is the sum of, and where they are stored for vectors.
#ifndef POOLGRAD_HOST_KERNELS_TERM_ROWS_H_
#define POOLGRAD_HOST_KERNELS_TERM_ROWS_H_

#include <cstdint>
#include <vector>

#include "host/window.h"

namespace poolgrad::host {

// Consecutive windows, or positions.
struct Range {
  int64_t first;
  int64_t end;

  int64_t count() const { return end > first ? end - first : 0; }
  bool operator==(const Range& other) const { return first == other.first && end == other.end; }
};

// For each of `size` elements the windows that contain it.
std::vector<Range> WindowsOfElements(const AxisSpans& axis, int64_t size);

int64_t LargestCount(const std::vector<Range>& ranges);

// By table: the terms of a row of windows are followed by zeros. Of the windows that contain element x, the term of
// number i is at position tables[i][x], or there is a zero.
struct TermTables {
  int64_t size;  // of terms and zeros
  std::vector<std::vector<int32_t>> tables;

  static TermTables Of(const AxisSpans& axis, int64_t width);
};

// By shifts, for windows of one size and distance: the terms are stored from position `begin` on, between zeros, in
// `size` positions. Element x = q stride + r is the sum of those at positions q + shifts[r].
struct TermShifts {
  int64_t begin;
  int64_t size;
  int64_t stride;
  std::vector<Range> shifts;  // of residues r < min(stride, elements), in ascending order

  static TermShifts Of(int64_t elements, int64_t windows, const WindowAxis& window);
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_TERM_ROWS_H_
