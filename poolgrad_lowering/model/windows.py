# SPDX-License-Identifier: Apache-2.0

"""The windows of pools: those of ONNX and of adaptive pooling, each formula once.

The formulas are those of the MaxPool page of the ONNX operator documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.model.ir.attributes import integer, integers, text
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Node


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

    def overhang(self, size: int, count: int) -> int:
        """Return how far the last of `count` windows ends behind `size` elements; negative if it ends before."""
        return (count - 1) * self.stride + self.extent - self.begin - size

    def elements(self, size: int, count: int, *, padded: bool) -> list[int]:
        """Return how many of `size` elements each of `count` windows contains, with those of the padding or without."""
        low, high = (-self.begin, size + self.end) if padded else (0, size)
        starts = [number * self.stride - self.begin for number in range(count)]
        firsts = [max(start, low + (start - low) % self.dilation) for start in starts]  # the first tap from low on
        ends = [min(start + self.extent, high) for start in starts]
        return [len(range(first, end, self.dilation)) for first, end in zip(firsts, ends, strict=True)]

    def starts_behind(self, number: int, size: int) -> bool:
        """Whether window `number` starts behind the last of `size` elements."""
        return number * self.stride >= size + self.begin


class MeanWindows(NamedTuple):
    """The windows of an average pool; each list has an entry for each axis.

    In the gradient every element of dY, divided, is added to all elements of its window. That is a transposed
    convolution with a kernel of ones, of which a part may lie behind the input, or end before it.

    `sizes` are those of the input, `counts` the numbers of windows. A window is divided by `divisor`, or by the number
    of its elements, with those of the padding if it is `padded`.
    """

    windows: Sequence[AxisWindow]
    sizes: Sequence[int]
    counts: Sequence[int]
    padded: bool
    divisor: int | None = None

    def divisors(self) -> npt.NDArray[np.int64]:
        """Return what each window is divided by, with an axis for each of the pool; of no axes if all are the same."""
        if self.divisor:
            return np.array(self.divisor, np.int64)
        axes = zip(self.windows, self.sizes, self.counts, strict=True)
        numbers = [np.array(window.elements(*of, padded=self.padded), np.int64) for window, *of in axes]
        found: npt.NDArray[np.int64] = functools.reduce(np.multiply.outer, numbers)
        return found.ravel()[0] if (found == found.flat[0]).all() else found

    def overhangs(self) -> list[int]:
        """Return how far the last window of each axis ends behind the input; negative if it ends before."""
        axes = zip(self.windows, self.sizes, self.counts, strict=True)
        return [window.overhang(size, count) for window, size, count in axes]


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


_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


class PoolAttributes(NamedTuple):
    """A MaxPool's attributes with ONNX's defaults filled in; tuples have one entry per spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil: bool
    auto_pad: str
    storage_order: int

    @classmethod
    def of(cls, windows: Sequence[AxisWindow], *, ceil: bool = False) -> PoolAttributes:
        """Return the attributes of a MaxPool with these windows on its spatial axes."""
        kernel, strides, begins, ends, dilations = zip(*windows, strict=True)
        return cls(kernel, strides, begins, ends, dilations, ceil, "NOTSET", 0)

    @classmethod
    def read(cls, node: Node, kernel: list[int] | None = None) -> PoolAttributes | None:
        """Return the attributes of a MaxPool node, or None if one is missing, malformed or out of range.

        `kernel` stands for an absent `kernel_shape`, which a convolution has from its weight.
        """
        kernel = integers(node, "kernel_shape", kernel)
        if not kernel:
            return None
        rank = len(kernel)
        strides = integers(node, "strides", [1] * rank)
        dilations = integers(node, "dilations", [1] * rank)
        pads = integers(node, "pads", [0] * 2 * rank)
        ceil, order = integer(node, "ceil_mode", 0), integer(node, "storage_order", 0)
        auto_pad = text(node, "auto_pad", "NOTSET")
        if strides is None or dilations is None or pads is None or auto_pad not in _AUTO_PADS:
            return None
        if ceil is None or order is None:
            return None
        if (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank):
            return None
        if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0:
            return None
        lists = tuple(kernel), tuple(strides), tuple(pads[:rank]), tuple(pads[rank:]), tuple(dilations)
        return cls(*lists, bool(ceil), auto_pad, order)

    @property
    def windows(self) -> list[AxisWindow]:
        """The windows of each axis, with the pads as they are written, whatever `auto_pad` is."""
        return list(map(AxisWindow, self.kernel, self.strides, self.begins, self.ends, self.dilations))

    @property
    def has_ambiguous_pads(self) -> bool:
        """Whether runtimes compute different pads.

        For SAME_*, onnxruntime ignores dilations, and with strides larger than the kernel it uses other pads. ONNX
        forbids pads beside another `auto_pad` than NOTSET.
        """
        if self.auto_pad != "NOTSET" and any(self.begins + self.ends):
            return True
        spread = max(self.dilations) > 1 or any(axis.stride > axis.kernel for axis in self.windows)
        return self.auto_pad.startswith("SAME") and spread

    def axis(self, number: int, size: Dim) -> AxisWindow | None:
        """Return the windows of one axis with `auto_pad` resolved; None if the pads depend on a symbolic size."""
        window, extent = self.windows[number], size.static
        if self.auto_pad == "NOTSET":
            return window
        if self.auto_pad == "VALID":
            total = 0
        elif window.stride == 1:
            total = window.extent - 1
        elif extent is None:
            return None
        else:  # for ⌈size / stride⌉ windows
            total = max(window._replace(begin=0).overhang(extent, -(-extent // window.stride)), 0)
        small, large = total // 2, total - total // 2
        begin, end = (large, small) if self.auto_pad == "SAME_LOWER" else (small, large)
        return window._replace(begin=begin, end=end)


@functools.lru_cache(maxsize=1024)
def pooled_sizes(pool: PoolAttributes, sizes: Shape) -> tuple[Dim | None, ...]:
    """Return the output size of each spatial axis by ONNX's formula; None if it is no product of the symbolic size.

    `ceil_mode` also applies to auto_pad=VALID, as in onnxruntime and in ONNX's own shape inference.
    """
    return tuple(_pooled_size(pool, number, size) for number, size in enumerate(sizes))


def _pooled_size(pool: PoolAttributes, number: int, size: Dim) -> Dim | None:
    window = pool.axis(number, size)
    if window is None:
        return None
    if size.static is None:  # c·n: with c a multiple of the stride, ⌊(c·n + rest) / stride⌋ + 1 is c / stride · n + …
        rest = window.begin + window.end - window.extent
        fewer, remainder = divmod(size.coefficient, window.stride)
        added = 1 + (-(-rest // window.stride) if pool.ceil else rest // window.stride)
        return Dim(fewer, size.symbols) if remainder == added == 0 else None
    return Dim(window.output_size(size.static, ceil=pool.ceil))


@dataclass(frozen=True)
class AdaptiveWindows:
    """The windows of adaptive pooling: on an axis, window `o` spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1 (PyTorch)."""


class Windows(NamedTuple):
    """The windows that a node states, with the output sizes where it states those too."""

    attributes: PoolAttributes | AdaptiveWindows
    sizes: Shape = ()
