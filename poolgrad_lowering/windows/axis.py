# SPDX-License-Identifier: Apache-2.0

"""The windows along one axis of a pool, and how many there are."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt


class AxisWindow(NamedTuple):
    """The windows of one spatial axis: window `o` has its taps at `o·stride − begin + t·dilation`, 0 ≤ t < kernel."""

    kernel: int
    stride: int
    begin: int
    end: int
    dilation: int

    @property
    def extent(self) -> int:
        """The effective kernel: the number of elements from the first tap to the last."""
        return self.dilation * (self.kernel - 1) + 1

    def output_size(self, size: int, *, ceil: bool) -> int:
        """Return the number of windows over `size` elements."""
        return window_count(size, self.extent, self.stride, self.begin, self.end, ceil=ceil)


def window_count(size: int, extent: int, stride: int, begin: int, end: int, *, ceil: bool) -> int:
    """Return the number of windows of `extent` elements on an axis of `size` elements, padded at both ends.

    Formula: the MaxPool page of the ONNX operator documentation and, with equal pads, the output shape section of
    CANN's documentation of aclnnMaxPool2dWithIndices. With `ceil`, a last window that would start in the end padding is
    dropped.
    """
    count = (size + begin + end - extent + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and starts_behind(count - 1, size, stride, begin) else count


def starts_behind(number: int, size: int, stride: int, begin: int) -> bool:
    """Return whether window `number` starts behind the last of `size` elements."""
    return number * stride >= size + begin


Number = TypeVar("Number", int, npt.NDArray[np.int64])


def adaptive_bounds(number: Number, size: int, count: int) -> tuple[Number, Number]:
    """Return the first element and the end of window `number`, of `count` windows over `size` elements.

    Formula: PyTorch's documentation of AdaptiveMaxPool, and CANN's of aclnnAdaptiveMaxPool3d: window o contains
    ⌊o·size/count⌋ … ⌈(o+1)·size/count⌉ − 1.
    """
    return number * size // count, -(-(number + 1) * size // count)
