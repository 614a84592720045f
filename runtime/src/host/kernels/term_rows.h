// SPDX-License-Identifier: Apache-2.0

// The access of vectors to the terms of a row of windows, along a row of x.
#ifndef POOLGRAD_HOST_KERNELS_TERM_ROWS_H_
#define POOLGRAD_HOST_KERNELS_TERM_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "host/window.h"

namespace poolgrad::host {

// Consecutive windows, or positions.
struct Range {
  int64_t first;
  int64_t end;

  int64_t count() const { return end > first ? end - first : 0; }
};

// For each of `size` elements the windows that contain it.
std::vector<Range> WindowsOfElements(const AxisSpans& axis, int64_t size);

int64_t LargestCount(const std::vector<Range>& ranges);

// The terms of a row of windows are stored in `size` floats from position `begin` on, between zeros. They are read in
// one of two ways:
//
// By table: of the windows that contain element x, the term of number i is at position tables[i][x], or there is a
// zero.
//
// By shifts: element x = q stride + r is in the windows whose terms are at positions q + shifts[r], or there are zeros.
struct TermRows {
  int64_t size;
  int64_t begin;
  std::vector<std::vector<int32_t>> tables;
  int64_t stride = 0;  // 0: by table
  std::vector<Range> shifts;

  // `window`: that of all windows, if they have one.
  static TermRows Of(const AxisSpans& axis, int64_t width, const std::optional<WindowAxis>& window);
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_TERM_ROWS_H_
