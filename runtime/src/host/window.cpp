#include "host/window.h"

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

Wide OutputSize(int64_t size, const WindowAxis& window, bool ceil_mode) {
  const Wide stride = window.stride;
  const Wide extent = Wide{window.dilation} * (window.kernel - 1) + 1;
  const Wide room = Wide{size} + 2 * Wide{window.padding} - extent + (ceil_mode ? stride - 1 : 0);
  const Wide count = FloorDivide(room, stride) + 1;
  const bool last_starts_outside = (count - 1) * stride >= Wide{size} + window.padding;
  return ceil_mode && last_starts_outside ? count - 1 : count;
}

}  // namespace poolgrad::host
