// SPDX-License-Identifier: Apache-2.0

// Pooling windows and their output sizes.
#ifndef POOLGRAD_HOST_WINDOW_H_
#define POOLGRAD_HOST_WINDOW_H_

#include <array>
#include <vector>

#include "host/tensor.h"

namespace poolgrad::host {

// Holds every product of two values of an aclIntArray.
__extension__ using Wide = __int128;

// The window along one spatial axis. Padding is the same at both ends.
struct WindowAxis {
  int64_t kernel;
  int64_t stride;
  int64_t padding;
  int64_t dilation;
};

// The value for one axis of a list that has one value for all axes, or one per axis.
int64_t ValueOfAxis(const aclIntArray& list, int64_t axis);

// The windows of `axes` spatial axes. If the stride list is empty, the strides are the kernel sizes.
std::vector<WindowAxis> WindowAxes(const aclIntArray& kernel_size, const aclIntArray& stride,
                                   const aclIntArray& padding, const aclIntArray& dilation, int64_t axes);

// Number of windows along an axis of `size` elements, by the formula of CANN's max-pool operators:
// floor((size + 2 padding - dilation (kernel - 1) - 1 [+ stride - 1 if ceil_mode]) / stride) + 1, less one
// where in ceil_mode the last window would start beyond the input and its left padding. May be negative. `truncates`:
// the quotient is rounded towards 0, as for average pools, so that a window may be larger than the padded input.
Wide OutputSize(int64_t size, const WindowAxis& window, bool ceil_mode, bool truncates = false);

// The elements of one window along an axis: `count` of them from position `first` on.
struct Span {
  int64_t first;
  int64_t count;
};

// All windows along an axis, clipped to the input. The elements of each are `step` apart.
struct AxisSpans {
  int64_t step;
  std::vector<Span> spans;
};

// The first `count` windows over `size` elements. A window that contains only padding has a count of 0.
AxisSpans PooledSpans(int64_t size, int64_t count, const WindowAxis& window);

// The `count` windows of adaptive pooling over `size` elements, which are never empty: window i is the range from
// floor(i size / count) to ceil((i + 1) size / count).
AxisSpans AdaptiveSpans(int64_t size, int64_t count);

// The number of elements that each of the first `count` windows over `size` elements counts: those of the input, and
// with `counts_padding` also those of the padding, but none behind it.
std::vector<double> CountedElements(int64_t size, int64_t count, const WindowAxis& window, bool counts_padding);

// The windows along D, H and W: `counts` windows over `sizes` elements. The last axes have `windows`; if there are
// none, all axes are adaptive. An axis before them has one position per element.
std::array<AxisSpans, 3> SpansOf(const std::array<int64_t, 3>& sizes, const std::array<int64_t, 3>& counts,
                                 const std::vector<WindowAxis>& windows);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_WINDOW_H_
