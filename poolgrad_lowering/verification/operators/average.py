# SPDX-License-Identifier: Apache-2.0

"""Average pooling and its gradient in numpy, over any number of spatial axes, which are the last ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.operators import pool


class AxisWindows(NamedTuple):
    """The windows along one axis of x: the elements of x in each window, and how many elements each window counts."""

    inside: list[slice]
    counted: list[int]


class AverageWindows(NamedTuple):
    """The windows of an average pool; `divisor` is that of all windows, 0 if each window is counted."""

    axes: list[AxisWindows]
    divisor: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of windows along each axis."""
        return tuple(len(axis.inside) for axis in self.axes)

    def divisors(self) -> AnyArray:
        """Return the divisor of each window, in float64."""
        if self.divisor:
            return np.full(self.counts, float(self.divisor))
        return functools.reduce(np.multiply.outer, [np.array(axis.counted, np.float64) for axis in self.axes])


def fixed_windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: pool.Pads,
    *,
    dilations: Sequence[int] | None = None,
    ceil: bool = False,
    counts_padding: bool = False,
    divisor: int = 0,
) -> AverageWindows:
    """Return the windows over axes of these sizes. Raises `ValueError` if an axis is too short for one.

    A window counts its elements in x, with `counts_padding` also those in the padding, but none behind it, where
    windows can end with `ceil`.
    """
    axes = []
    spacing = dilations or [1] * len(kernel)
    for size, taps, stride, dilation, begin, end in zip(sizes, kernel, strides, spacing, *pads, strict=True):
        inside = pool.fixed_windows(size, taps, stride, dilation, (begin, end), ceil=ceil)
        starts = [number * stride - begin for number in range(len(inside))]
        low, high = (-begin, size + end) if counts_padding else (0, size)
        counted = [sum(low <= start + tap * dilation < high for tap in range(taps)) for start in starts]
        axes.append(AxisWindows(inside, counted))
    return AverageWindows(axes, divisor)


def adaptive_windows(sizes: Sequence[int], counts: Sequence[int]) -> AverageWindows:
    """Return the windows of adaptive pooling."""
    axes = [pool.adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    return AverageWindows([AxisWindows(inside, [span.stop - span.start for span in inside]) for inside in axes])


def average_pool(x: AnyArray, windows: AverageWindows) -> AnyArray:
    """Return the mean of each window of x, computed in float32 (float64 for float64) and rounded once."""
    sums, first = _wide(x), x.ndim - len(windows.axes)
    for axis, along in enumerate(windows.axes, first):
        parts = [sums[(slice(None),) * axis + (span,)].sum(axis, keepdims=True) for span in along.inside]
        sums = np.concatenate(parts, axis)
    means: AnyArray = (sums / windows.divisors().astype(sums.dtype)).astype(x.dtype)
    return means


def average_gradient(sizes: Sequence[int], dy: AnyArray, windows: AverageWindows) -> AnyArray:
    """Return dx, with these sizes of its last axes: each element of dy over its divisor, added to its window.

    Sums are computed in float32 (float64 for float64) and rounded to dy's type once. Raises `ValueError` if dy has
    another number of windows.
    """
    first = dy.ndim - len(windows.axes)
    if dy.shape[first:] != windows.counts:
        raise ValueError(f"there are {windows.counts} windows, the gradient has shape {dy.shape}")
    wide = _wide(dy)
    sums = wide / windows.divisors().astype(wide.dtype)
    for axis, (size, along) in enumerate(zip(sizes, windows.axes, strict=True), first):
        spread = np.zeros((*sums.shape[:axis], size, *sums.shape[axis + 1 :]), sums.dtype)
        before = (slice(None),) * axis
        for number, span in enumerate(along.inside):
            window = (slice(number, number + 1),)
            spread[before + (span,)] += sums[before + window]  # noqa: RUF005 - a subscript with * needs Python 3.11
        sums = spread
    dx: AnyArray = sums.astype(dy.dtype)
    return dx


def _wide(array: AnyArray) -> AnyArray:
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)
