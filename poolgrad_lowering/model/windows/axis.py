# SPDX-License-Identifier: Apache-2.0

"""The windows along one axis of a pool, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
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
        """Return the number of windows over `size` elements, padded at both ends.

        Formula: the MaxPool page of the ONNX operator documentation and, with equal pads, the output shape section of
        CANN's documentation of aclnnMaxPool2dWithIndices. With `ceil`, a last window that would start in the end
        padding is dropped.
        """
        last = (size + self.begin + self.end - self.extent + (self.stride - 1 if ceil else 0)) // self.stride
        return last if ceil and self.starts_behind(last, size) else last + 1

    def starts_behind(self, number: int, size: int) -> bool:
        """Whether window `number` starts behind the last of `size` elements."""
        return number * self.stride >= size + self.begin


Number = TypeVar("Number", int, npt.NDArray[np.int64])


def adaptive_bounds(number: Number, size: int, count: int) -> tuple[Number, Number]:
    """Return the first element and the end of window `number`, of `count` windows over `size` elements.

    Formula: PyTorch's documentation of AdaptiveMaxPool, and CANN's of aclnnAdaptiveMaxPool3d: window o contains
    ⌊o·size/count⌋ … ⌈(o+1)·size/count⌉ − 1.
    """
    return number * size // count, -(-(number + 1) * size // count)


def factorisations(number: int, rank: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a positive number as an ordered product of `rank` factors."""
    if rank == 1:
        yield (number,)
        return
    for factor in range(1, number + 1):
        if number % factor == 0:
            yield from ((factor, *rest) for rest in factorisations(number // factor, rank - 1))
