#include "host/kernels/row_plan.h"

#include <algorithm>

namespace poolgrad::host {
namespace {

using simd::kMostLanes;

// Elements in tables, for each element and window of a row, beyond which vectors are not worth it.
constexpr int64_t kMostWork = 16;

int64_t WholeVectors(int64_t count) { return (count + kMostLanes - 1) / kMostLanes * kMostLanes; }

int64_t LongestWindow(const AxisSpans& axis) {
  int64_t longest = 0;
  for (const Span& span : axis.spans) longest = std::max(longest, span.count);
  return longest;
}

// The one kernel, stride and padding that all windows have, if there are such.
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
  if (window && window->stride <= 2) {
    plan.TakeStride(*window);
  } else {
    plan.TakeTable(axis, taps);
  }
  return plan;
}

// An element of a window is as far behind that of the window before as the stride says.
void RowPlan::TakeStride(const WindowAxis& window) {
  padding_ = window.padding;
  const int64_t last_offset = (window.kernel - 1) * window.dilation / window.stride;
  pitch_ = WholeVectors(last_offset + WholeVectors(count_));
  columns_size_ = std::max(WholeVectors(padding_ + width_) + 2 * kMostLanes, window.stride * pitch_);
  if (window.stride == 2) {
    arrangement_ = simd::Arrangement::kEvenOdd;
    arranged_size_ = 2 * pitch_;
  }
  for (int64_t tap = 0; tap < window.kernel; ++tap) {
    const int64_t distance = tap * window.dilation;
    offsets_.push_back(distance % window.stride * pitch_ + distance / window.stride);
  }
}

// The table has all elements of all windows. A shorter window has its last element several times, which changes no
// maximum.
void RowPlan::TakeTable(const AxisSpans& axis, int64_t taps) {
  arrangement_ = simd::Arrangement::kByTable;
  pitch_ = WholeVectors(count_);
  columns_size_ = WholeVectors(width_) + 2 * kMostLanes;
  for (int64_t tap = 0; tap < taps; ++tap) {
    offsets_.push_back(tap * pitch_);
    for (const Span& span : axis.spans) {
      source_.push_back(static_cast<int32_t>(span.first + std::min(tap, span.count - 1) * axis.step));
    }
    source_.resize(static_cast<size_t>((tap + 1) * pitch_), static_cast<int32_t>(width_));
  }
  arranged_size_ = taps * pitch_;
}

simd::RowWindows RowPlan::windows() const {
  return {arrangement_,    width_,         padding_,       pitch_,
          columns_size_,   arranged_size_, source_.data(), static_cast<int64_t>(offsets_.size()),
          offsets_.data(), count_};
}

}  // namespace poolgrad::host
