// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/term_rows.h"

#include <algorithm>

#include "host/kernels/simd/operations.h"

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

TermTables TermTables::Of(const AxisSpans& axis, int64_t width) {
  const auto windows = static_cast<int64_t>(axis.spans.size());
  const auto zero = static_cast<int32_t>(windows);
  const std::vector<Range> elements = WindowsOfElements(axis, width);
  TermTables rows{windows + simd::kMostLanes, {}};
  for (int64_t i = 0; i < LargestCount(elements); ++i) {
    std::vector<int32_t>& table = rows.tables.emplace_back();
    for (const Range& range : elements) {
      table.push_back(i < range.count() ? static_cast<int32_t>(range.first + i) : zero);
    }
  }
  return rows;
}

// Window w begins at element w stride - padding.
TermShifts TermShifts::Of(int64_t elements, int64_t windows, const WindowAxis& given) {
  const WindowAxis window = Shortest(elements, windows, given);
  const int64_t stride = window.stride;
  const int64_t begin = CeilDivide(window.kernel, stride);
  const int64_t last = (elements - 1) / stride + (stride - 1 + window.padding) / stride;
  TermShifts rows{begin, begin + std::max(windows, last + 1), stride, {}};
  for (int64_t r = 0; r < std::min(stride, elements); ++r) {
    const int64_t first = CeilDivide(r + window.padding - window.kernel + 1, stride);
    rows.shifts.push_back({begin + first, begin + (r + window.padding) / stride + 1});
  }
  return rows;
}

}  // namespace poolgrad::host
