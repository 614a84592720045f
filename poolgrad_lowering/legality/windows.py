"""The windows that aclnn can express, and how ONNX's are brought into them.

A gradient depends on the recorded indices alone: any windows that contain every index that can be recorded, in
number equal to the pool's outputs, give the same result. aclnn has, per axis, a kernel, a stride and one padding for
both ends, at most half the kernel, and computes the output size itself.
"""

from __future__ import annotations

from typing import NamedTuple

from poolgrad_lowering.analysis.pool import AxisWindow


class AclnnWindow(NamedTuple):
    """One axis of an aclnn pool with dilation 1, on a canvas of `before + size + after` elements.

    `before` and `after` are 0 unless the plane has to be padded to a canvas first.
    """

    kernel: int
    stride: int
    pad: int
    before: int = 0
    after: int = 0

    def is_legal(self) -> bool:
        """Whether aclnn takes kernel, stride and padding (padding ≤ kernel / 2, integer division)."""
        return self.kernel > 0 and self.stride > 0 and 0 <= self.pad <= self.kernel // 2

    def output_size(self, size: int, *, ceil: bool) -> int:
        """How many windows aclnn makes over `size` elements of x.

        Formula: the output shape section of CANN's documentation of aclnnMaxPool2dWithIndicesBackward, with the
        rule that a last window must start inside the input or its left padding.
        """
        canvas = self.before + size + self.after
        span = canvas + 2 * self.pad - self.kernel
        count = (span + (self.stride - 1 if ceil else 0)) // self.stride + 1
        if ceil and (count - 1) * self.stride >= canvas + self.pad:
            count -= 1
        return count


def widened(window: AxisWindow) -> AclnnWindow:
    """The same window starts with dilation 1 and equal pads, as narrow as possible.

    Dilation becomes the effective kernel. Unequal pads become the larger one, the kernel growing by the difference:
    each new window reaches from the old one's first element to its last, and further by what the pads grew.
    """
    return AclnnWindow(
        kernel=window.extent + abs(window.begin - window.end),
        stride=window.stride,
        pad=max(window.begin, window.end),
    )


def on_canvas(window: AxisWindow, size: int, count: int) -> AclnnWindow:
    """The windows on a canvas that holds the plane and every window, so that no padding is left.

    The plane begins at `begin`; the canvas ends with the last window or with the plane, whichever is later.
    """
    last = (count - 1) * window.stride + window.extent
    return AclnnWindow(
        kernel=window.extent,
        stride=window.stride,
        pad=0,
        before=window.begin,
        after=max(last - window.begin - size, 0),
    )


def starts_in_padding(window: AxisWindow, size: int, count: int) -> bool:
    """Whether the last of `count` windows starts behind the last element."""
    return (count - 1) * window.stride >= size + window.begin


def has_empty_window(window: AxisWindow, size: int, count: int) -> bool:
    """Whether some of `count` (≥ 1) windows has no tap inside `0 … size − 1`.

    A window that starts inside has its first tap there. One that starts before has its first tap behind the padding
    at `start mod dilation`, if it reaches so far; those positions repeat after `dilation` windows.
    """
    if window.begin >= window.extent or starts_in_padding(window, size, count):
        return True
    before = range(min(count, -(-window.begin // window.stride), window.dilation))
    return any((number * window.stride - window.begin) % window.dilation >= size for number in before)
