// SPDX-License-Identifier: Apache-2.0

#include "host/window.h"

#include <algorithm>

namespace poolgrad::host {
namespace {

// Quotient rounded towards minus infinity; the divisor is positive.
Wide FloorDivide(Wide dividend, Wide divisor) {
  const Wide quotient = dividend / divisor;
  return dividend % divisor < 0 ? quotient - 1 : quotient;
}

}  // namespace

int64_t ValueOfAxis(const aclIntArray& list, int64_t axis) {
  return list.values[list.size() == 1 ? 0 : static_cast<size_t>(axis)];
}

std::vector<WindowAxis> WindowAxes(const aclIntArray& kernel_size, const aclIntArray& stride,
                                   const aclIntArray& padding, const aclIntArray& dilation, int64_t axes) {
  const aclIntArray& step = stride.values.empty() ? kernel_size : stride;
  std::vector<WindowAxis> windows;
  for (int64_t axis = 0; axis < axes; ++axis) {
    windows.push_back({ValueOfAxis(kernel_size, axis), ValueOfAxis(step, axis), ValueOfAxis(padding, axis),
                       ValueOfAxis(dilation, axis)});
  }
  return windows;
}

Wide OutputSize(int64_t size, const WindowAxis& window, bool ceil_mode, bool truncates) {
  const Wide stride = window.stride;
  const Wide extent = Wide{window.dilation} * (window.kernel - 1) + 1;
  const Wide room = Wide{size} + 2 * Wide{window.padding} - extent + (ceil_mode ? stride - 1 : 0);
  const Wide count = (truncates ? room / stride : FloorDivide(room, stride)) + 1;
  const bool last_starts_outside = (count - 1) * stride >= Wide{size} + window.padding;
  return ceil_mode && last_starts_outside ? count - 1 : count;
}

AxisSpans PooledSpans(int64_t size, int64_t count, const WindowAxis& window) {
  AxisSpans axis{window.dilation, {}};
  axis.spans.reserve(static_cast<size_t>(count));
  for (int64_t o = 0; o < count; ++o) {
    const Wide start = Wide{o} * window.stride - window.padding;
    const Wide skipped = start < 0 ? -FloorDivide(start, window.dilation) : 0;
    const Wide first = start + skipped * window.dilation;
    const Wide inside = first < size ? (size - 1 - first) / window.dilation + 1 : 0;
    const Wide elements = std::clamp<Wide>(window.kernel - skipped, 0, inside);
    axis.spans.push_back({elements > 0 ? static_cast<int64_t>(first) : 0, static_cast<int64_t>(elements)});
  }
  return axis;
}

std::vector<double> CountedElements(int64_t size, int64_t count, const WindowAxis& window, bool counts_padding) {
  const Wide margin = counts_padding ? window.padding : 0;
  std::vector<double> elements;
  elements.reserve(static_cast<size_t>(count));
  for (int64_t o = 0; o < count; ++o) {
    const Wide start = Wide{o} * window.stride - window.padding;
    const Wide first = std::max(start, -margin);
    const Wide end = std::min(start + window.kernel, size + margin);
    elements.push_back(static_cast<double>(std::max<Wide>(end - first, 0)));
  }
  return elements;
}

AxisSpans AdaptiveSpans(int64_t size, int64_t count) {
  AxisSpans axis{1, {}};
  axis.spans.reserve(static_cast<size_t>(count));
  for (Wide o = 0; o < count; ++o) {
    const auto first = static_cast<int64_t>(o * size / count);
    const auto end = static_cast<int64_t>(((o + 1) * size + count - 1) / count);
    axis.spans.push_back({first, end - first});
  }
  return axis;
}

std::array<AxisSpans, 3> SpansOf(const std::array<int64_t, 3>& sizes, const std::array<int64_t, 3>& counts,
                                 const std::vector<WindowAxis>& windows) {
  std::array<AxisSpans, 3> axes;
  const size_t absent = axes.size() - windows.size();
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const bool windowed = axis >= absent;
    axes[axis] = windowed ? PooledSpans(sizes[axis], counts[axis], windows[axis - absent])
                          : AdaptiveSpans(sizes[axis], counts[axis]);
  }
  return axes;
}

}  // namespace poolgrad::host
