// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/row_plan.h"

#include <algorithm>

namespace poolgrad::host {
namespace {

using simd::kMostLanes;

// With more table elements than this per element and window of a row, vectors are slower.
constexpr int64_t kMostWork = 16;

int64_t WholeVectors(int64_t count) { return (count + kMostLanes - 1) / kMostLanes * kMostLanes; }

int64_t LongestWindow(const AxisSpans& axis) {
  int64_t longest = 0;
  for (const Span& span : axis.spans) longest = std::max(longest, span.count);
  return longest;
}

// The kernel, stride and padding, if they are the same for all windows.
std::optional<WindowAxis> CommonWindow(const AxisSpans& axis, int64_t width) {
  const std::vector<Span>& spans = axis.spans;
  const int64_t kernel = LongestWindow(axis);
  const auto is_whole = [&](const Span& span) { return span.count == kernel; };
  const auto whole = std::find_if(spans.begin(), spans.end(), is_whole);
  const bool next_is_whole = whole + 1 != spans.end() && is_whole(whole[1]);
  const int64_t stride = next_is_whole ? whole[1].first - whole->first : 1;
  const WindowAxis window{kernel, stride, (whole - spans.begin()) * stride - whole->first, axis.step};
  if (stride < 1 || window.padding < 0 || window.padding >= (kernel - 1) * axis.step + stride) return std::nullopt;
  const AxisSpans expected = PooledSpans(width, static_cast<int64_t>(spans.size()), window);
  const auto is_same = [](const Span& a, const Span& b) { return a.first == b.first && a.count == b.count; };
  const bool common = std::equal(spans.begin(), spans.end(), expected.spans.begin(), is_same);
  return common ? std::optional(window) : std::nullopt;
}

}  // namespace

std::optional<RowPlan> RowPlan::Of(const AxisSpans& axis, int64_t width) {
  const auto count = static_cast<int64_t>(axis.spans.size());
  const int64_t taps = LongestWindow(axis);
  if (taps > kMostWork * (width + count) / WholeVectors(count)) return std::nullopt;
  RowPlan plan(width, count);
  const std::optional<WindowAxis> window = CommonWindow(axis, width);
  if (window && window->stride <= simd::kLongestStride) {
    plan.TakeStride(*window);
  } else {
    plan.TakeTable(axis, taps);
  }
  return plan;
}

void RowPlan::TakeStride(const WindowAxis& window) {
  padding_ = window.padding;
  stride_ = window.stride;
  for (int64_t tap = 0; tap < window.kernel; ++tap) offsets_.push_back(tap * window.dilation);
  columns_size_ = std::max(SizeOfColumns(), offsets_.back() + stride_ * WholeVectors(count_));
}

// The table contains all elements of all windows. A shorter window repeats its last element, which does not change the
// maximum.
void RowPlan::TakeTable(const AxisSpans& axis, int64_t taps) {
  columns_size_ = SizeOfColumns();
  const int64_t pitch = WholeVectors(count_);
  for (int64_t tap = 0; tap < taps; ++tap) {
    offsets_.push_back(tap * pitch);
    for (const Span& span : axis.spans) {
      source_.push_back(static_cast<int32_t>(span.first + std::min(tap, span.count - 1) * axis.step));
    }
    source_.resize(static_cast<size_t>((tap + 1) * pitch), static_cast<int32_t>(width_));
  }
  arranged_size_ = taps * pitch;
}

// Whole vectors, and one more vector after the last column.
int64_t RowPlan::SizeOfColumns() const { return WholeVectors(padding_ + width_) + 2 * kMostLanes; }

simd::RowWindows RowPlan::windows() const {
  const auto taps = static_cast<int64_t>(offsets_.size());
  return {width_, padding_, columns_size_, source_.data(), arranged_size_, taps, offsets_.data(), stride_, count_};
}

}  // namespace poolgrad::host
