// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/term_rows.h"

#include <algorithm>

namespace poolgrad::host {
namespace {

int64_t CeilDivide(int64_t dividend, int64_t divisor) { return dividend / divisor + (dividend % divisor > 0 ? 1 : 0); }

// A window that contains the same elements in each place, without what all of them have in the padding.
WindowAxis Shortest(int64_t elements, int64_t windows, WindowAxis window) {
  if (windows == 1) window.stride = elements;
  const int64_t excess = std::max<int64_t>(window.padding - (windows - 1) * window.stride, 0);
  window.padding -= excess;
  window.kernel = std::min(window.kernel - excess, elements + window.padding);
  return window;
}

}  // namespace

std::vector<Range> WindowsOfElements(const AxisSpans& axis, int64_t size) {
  const auto count = static_cast<int64_t>(axis.spans.size());
  std::vector<Range> elements;
  elements.reserve(static_cast<size_t>(size));
  Range range{0, 0};
  const auto span = [&](int64_t window) { return axis.spans[static_cast<size_t>(window)]; };
  for (int64_t element = 0; element < size; ++element) {
    while (range.first < count && span(range.first).first + span(range.first).count <= element) ++range.first;
    while (range.end < count && span(range.end).first <= element) ++range.end;
    elements.push_back(range);
  }
  return elements;
}

int64_t LargestCount(const std::vector<Range>& ranges) {
  int64_t most = 0;
  for (const Range& range : ranges) most = std::max(most, range.count());
  return most;
}

// Window w begins at element w stride - padding.
TermShifts TermShifts::Of(int64_t elements, int64_t windows, const WindowAxis& given) {
  const WindowAxis window = Shortest(elements, windows, given);
  const int64_t stride = std::min(window.stride, elements);
  const auto windows_of = [&](int64_t r) {
    return Range{CeilDivide(r + window.padding - window.kernel + 1, window.stride),
                 (r + window.padding) / window.stride + 1};
  };
  TermShifts rows{std::max<int64_t>(-windows_of(0).first, 0), 0, stride, {}, {}};
  const int64_t steps = rows.Steps(elements);
  const int64_t zeros_after = steps - 1 + windows_of(stride - 1).end - windows;
  rows.size = std::max(windows + std::max(rows.begin, zeros_after), steps);
  for (int64_t r = 0; r < stride; ++r) {
    if (r == 0 || !(windows_of(r) == windows_of(r - 1))) rows.parts.push_back({windows_of(r), r});
    rows.parts.back().end = r + 1;
  }
  for (const TermPart& part : rows.parts) rows.ends.push_back(part.end);
  return rows;
}

}  // namespace poolgrad::host
