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

// Residues with the same windows: those from the end of the part before on.
struct TermPart {
  Range windows;
  int64_t end;
};

// By shifts, for windows of one size and distance: the terms are stored from position `begin` on, between zeros, in
// `size` positions; the zeros at the begin of a row are also those at the end of the row before. Element
// x = q stride + r is the sum of those at positions q + the `windows` of r.
struct TermShifts {
  int64_t begin;
  int64_t size;
  int64_t stride;               // no more than there are elements
  std::vector<TermPart> parts;  // of residues r < stride, in ascending order
  std::vector<int64_t> ends;    // of the parts

  static TermShifts Of(int64_t elements, int64_t windows, const WindowAxis& window);

  // The number of elements with the same residue, or one more.
  int64_t Steps(int64_t elements) const { return (elements - 1) / stride + 1; }

  // The windows of all elements with the same q, without the first.
  int64_t overlap() const { return parts.back().windows.end - parts[0].windows.first - 1; }
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_TERM_ROWS_H_
