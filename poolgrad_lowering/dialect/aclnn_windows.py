# SPDX-License-Identifier: Apache-2.0

"""The windows that aclnn can express, and how ONNX's windows are legalized to them.

A gradient depends on the recorded indices only. So any windows give the same result if there are as many as the pool
has outputs, and each contains every index that can be recorded for it. aclnn has, per axis, a kernel, a stride and one
padding for both ends, at most half the kernel, and computes the output size itself.
"""

from __future__ import annotations

from typing import NamedTuple

from poolgrad_lowering.model.windows import AxisWindow


class AclnnWindow(NamedTuple):
    """One axis of an aclnn pool with dilation 1, on a canvas of `before + size + after` elements.

    `before` and `after` are 0 unless x is padded to a canvas first.
    """

    kernel: int
    stride: int
    pad: int
    before: int = 0
    after: int = 0

    @property
    def on_axis(self) -> AxisWindow:
        """The same windows in ONNX's terms, over the canvas."""
        return AxisWindow(self.kernel, self.stride, self.pad, self.pad, 1)

    def is_legal(self) -> bool:
        """Whether aclnn supports kernel, stride and padding (padding ≤ kernel / 2, integer division)."""
        return self.kernel > 0 and self.stride > 0 and 0 <= self.pad <= self.kernel // 2

    def output_size(self, size: int, *, ceil: bool) -> int:
        """Return the number of windows that aclnn computes over `size` elements of x.

        Formula: the output shape section of CANN's documentation of aclnnMaxPool2dWithIndicesBackward.
        """
        return self.on_axis.output_size(self.before + size + self.after, ceil=ceil)


def widened(window: AxisWindow) -> AclnnWindow:
    """Return the narrowest windows with dilation 1 and equal pads that contain the given ones.

    The kernel becomes the effective kernel. Both pads become the larger one, and the kernel grows by their difference,
    so that each new window contains the old one.
    """
    return AclnnWindow(
        kernel=window.extent + abs(window.begin - window.end), stride=window.stride, pad=max(window.begin, window.end)
    )


def on_canvas(window: AxisWindow, size: int, count: int) -> AclnnWindow:
    """Return the windows on a canvas that contains the plane and every window, so that no padding is needed.

    The plane starts at `begin`; the canvas ends with the last window or with the plane, whichever is later.
    """
    after = max(window.overhang(size, count), 0)
    return AclnnWindow(kernel=window.extent, stride=window.stride, pad=0, before=window.begin, after=after)


def has_empty_window(window: AxisWindow, size: int, count: int) -> bool:
    """Whether one of `count` (≥ 1) windows has no tap in `0 … size − 1`.

    A window that starts in the input has its first tap there. A window that starts before the input has its first tap
    in the input at `start mod dilation`, if it is long enough; these positions repeat after `dilation` windows.
    """
    if window.begin >= window.extent or window.starts_behind(count - 1, size):
        return True
    before = range(min(count, -(-window.begin // window.stride), window.dilation))
    return any((number * window.stride - window.begin) % window.dilation >= size for number in before)
