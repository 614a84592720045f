# SPDX-License-Identifier: Apache-2.0

"""Max and average pooling and their gradients in numpy, over any number of spatial axes, which are the last ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.verification.arrays import AnyArray, IntArray

_MOST_GATHERED = 1 << 24
"""The number of elements of windows above which windows are pooled in several blocks."""

Pads = tuple[Sequence[int], Sequence[int]]
"""Padding at the beginning and at the end of each axis."""


def max_pool(
    x: AnyArray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pads,
    *,
    ceil: bool = False,
    last_nan: bool = False,
) -> tuple[AnyArray, IntArray]:
    """Return the maxima of x (N, C, spatial axes) and their row-major positions in the (n, c) plane.

    The first maximum of a window is selected. A NaN is the maximum only if it is the window's first element
    (onnxruntime's MaxPool); with `last_nan` it is greater than every number, and the last NaN is selected (PyTorch's
    pools). With `ceil` the number of windows is rounded up, but none starts after the end of x. Raises `ValueError` if
    a window has no element of x.
    """
    rows = zip(x.shape[2:], kernel, strides, dilations, zip(*pads, strict=True), strict=True)
    return _pool(x, [fixed_windows(*row, ceil=ceil) for row in rows], last_nan=last_nan)


def adaptive_max_pool(x: AnyArray, counts: Sequence[int]) -> tuple[AnyArray, IntArray]:
    """As PyTorch's `max_pool`, with adaptive windows."""
    windows = [adaptive_windows(size, count) for size, count in zip(x.shape[2:], counts, strict=True)]
    return _pool(x, windows, last_nan=True)


def fixed_windows(
    size: int, taps: int, stride: int, dilation: int, pads: tuple[int, int], *, ceil: bool
) -> list[slice]:
    """Return the elements of an axis in each window, none if all are in the padding.

    Raises `ValueError` if the axis is too short for one.
    """
    extent = dilation * (taps - 1) + 1
    windows = []
    for number in range(window_count(size, extent, stride, *pads, ceil=ceil)):
        start = number * stride - pads[0]
        first = start if start >= 0 else start % dilation
        windows.append(slice(first, max(first, min(start + extent, size)), dilation))
    return windows


def adaptive_windows(size: int, count: int) -> list[slice]:
    """Return the elements of an axis in each window: window o is from floor(o·I/O) to ceil((o+1)·I/O) − 1."""
    return [slice(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]


def _pool(x: AnyArray, windows: Sequence[Sequence[slice]], *, last_nan: bool) -> tuple[AnyArray, IntArray]:
    """Return the result of `max_pool` for the windows of each axis."""
    sizes = x.shape[2:]
    first, *others = [_as_rows(size, along) for size, along in zip(sizes, windows, strict=True)]
    shape = (*x.shape[:2], *map(len, windows))
    y, positions = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    planes = x.reshape(*x.shape[:2], math.prod(sizes))
    blocks = 1 + y.size * math.prod(rows.shape[1] for rows in (first, *others)) // _MOST_GATHERED
    parts = (np.array_split(array, blocks, axis) for array, axis in ((first, 0), (y, 2), (positions, 2)))
    for rows, maxima, places in zip(*parts, strict=True):
        elements = _places([rows, *others], sizes)
        inside = planes[..., elements]
        best = _maximum(inside, last_nan=last_nan)[..., None]
        maxima[...] = np.take_along_axis(inside, best, -1)[..., 0]
        places[...] = np.take_along_axis(np.broadcast_to(elements, inside.shape), best, -1)[..., 0]
    return y, positions


def _as_rows(size: int, windows: Sequence[slice]) -> IntArray:
    """Return the elements of an axis in each window as a row. Raises `ValueError` if a window has none.

    Shorter windows repeat their last element: neither the first maximum nor the last NaN is another element then.
    """
    rows = [range(size)[window] for window in windows]
    if not all(rows):
        raise ValueError("a window is entirely in the padding")
    length = max(map(len, rows), default=1)
    elements = [row[min(tap, len(row) - 1)] for row in rows for tap in range(length)]
    return np.array(elements, np.int64).reshape(len(rows), length)


def window_places(sizes: Sequence[int], windows: Sequence[Sequence[slice]]) -> IntArray:
    """Return the positions in a plane of the elements of each window along the last axis. See `_as_rows`."""
    return _places([_as_rows(size, along) for size, along in zip(sizes, windows, strict=True)], sizes)


def _places(windows: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Return the positions in a plane of the elements of each window along the last axis, from those on each axis."""
    rank = len(windows)
    grid = np.ravel_multi_index(np.ix_(*(along.reshape(-1) for along in windows)), tuple(sizes))
    by_axis = grid.reshape([size for along in windows for size in along.shape])
    by_window = by_axis.transpose(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    places: IntArray = by_window.reshape(*by_window.shape[:rank], math.prod(by_window.shape[rank:]))
    return places


def _maximum(elements: AnyArray, *, last_nan: bool) -> IntArray:
    """Return the position of the maximum on the last axis, with the rules of `max_pool`."""
    nan = np.isnan(elements)
    best: IntArray = elements.argmax(-1)
    if nan.any() and last_nan:
        best = np.where(nan.any(-1), nan.shape[-1] - 1 - nan[..., ::-1].argmax(-1), best)
    elif nan.any():
        numbers = elements.copy()
        numbers[nan] = -np.inf
        best = np.where(nan[..., 0], 0, numbers.argmax(-1))
    return best


def window_count(size: int, extent: int, stride: int, begin: int, end: int, *, ceil: bool) -> int:
    """Return the number of windows of an axis. Raises `ValueError` if the axis is too short for one."""
    room = size + begin + end - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    if count < 1:
        raise ValueError(f"no window of {extent} fits an axis of {size} with padding {begin} and {end}")
    return count


def scatter_gradient(
    shape: Sequence[int], dy: AnyArray, indices: npt.NDArray[np.integer[Any]], *, overwrites: bool = False
) -> AnyArray:
    """Return dx of a max pool: zeros, plus dy at `indices` into the whole row-major x, in the order of dy.

    Sums are computed in float32 (float64 for float64) and rounded to dy's type once. If dy `overwrites`, the last
    element at an index is the result. Raises `IndexError` for an index outside x.
    """
    size = math.prod(shape)
    if indices.shape != dy.shape:
        raise ValueError(f"indices have shape {indices.shape}, the gradient has shape {dy.shape}")
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices reach from {indices.min()} to {indices.max()}, x has {size} elements")
    wide = _wide(dy)
    dx = np.zeros(size, wide.dtype)
    if overwrites:
        dx[indices.reshape(-1)] = wide.reshape(-1)
    else:
        np.add.at(dx, indices.reshape(-1), wide.reshape(-1))
    return dx.astype(dy.dtype).reshape(tuple(shape))


def gradient_of(x: AnyArray, dy: AnyArray, indices: npt.NDArray[np.integer[Any]]) -> AnyArray:
    """Return `scatter_gradient` of an operator that takes x itself, as PyTorch's and TensorFlow's do.

    Raises `ValueError` if x and dy have different element types, which both refuse.
    """
    if x.dtype != dy.dtype:
        raise ValueError(f"x has type {x.dtype}, the gradient {dy.dtype}")
    return scatter_gradient(x.shape, dy, indices)


def plane_starts(shape: Sequence[int]) -> IntArray:
    """Return the position of each (n, c) plane's first element in the whole tensor, in a shape that broadcasts."""
    planes = np.arange(shape[0] * shape[1], dtype=np.int64) * math.prod(shape[2:])
    return planes.reshape(shape[0], shape[1], *[1] * (len(shape) - 2))


def same_pads(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *, upper: bool
) -> Pads:
    """Return the pads that give ceil(size / stride) windows; an odd element is at the end with `upper`."""
    totals = [
        max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (less, more) if upper else (more, less)


class AverageWindows(NamedTuple):
    """The windows of an average pool: the elements of x in them along each axis, and what each window is divided by."""

    axes: list[list[slice]]
    divisors: AnyArray

    @classmethod
    def fixed(
        cls,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        pads: Pads,
        *,
        dilations: Sequence[int] | None = None,
        ceil: bool = False,
        counts_padding: bool = False,
        divisor: int = 0,
    ) -> AverageWindows:
        """Return the windows over axes of these sizes. Raises `ValueError` if an axis is too short for one.

        Without a divisor, a window counts its elements in x, with `counts_padding` also those in the padding, but none
        behind it, where windows can end with `ceil`.
        """
        axes, counted = [], []
        spacing = dilations or [1] * len(kernel)
        for size, taps, stride, dilation, begin, end in zip(sizes, kernel, strides, spacing, *pads, strict=True):
            axes.append(fixed_windows(size, taps, stride, dilation, (begin, end), ceil=ceil))
            starts = [number * stride - begin for number in range(len(axes[-1]))]
            low, high = (-begin, size + end) if counts_padding else (0, size)
            counted.append([sum(low <= start + tap * dilation < high for tap in range(taps)) for start in starts])
        elements = _products(counted)
        return cls(axes, np.full(elements.shape, float(divisor)) if divisor else elements)

    @classmethod
    def adaptive(cls, sizes: Sequence[int], counts: Sequence[int]) -> AverageWindows:
        """Return the windows of adaptive pooling."""
        axes = [adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
        return cls(axes, _products([[span.stop - span.start for span in inside] for inside in axes]))


def _products(numbers: Sequence[Sequence[int]]) -> AnyArray:
    """Return the products of a number on each axis, in float64."""
    return functools.reduce(np.multiply.outer, [np.array(along, np.float64) for along in numbers])


def average_pool(x: AnyArray, windows: AverageWindows) -> AnyArray:
    """Return the mean of each window of x, computed in float32 (float64 for float64) and rounded once."""
    sums, first = _wide(x), x.ndim - len(windows.axes)
    for axis, along in enumerate(windows.axes, first):
        parts = [sums[(slice(None),) * axis + (span,)].sum(axis, keepdims=True) for span in along]
        sums = np.concatenate(parts, axis)
    means: AnyArray = (sums / windows.divisors.astype(sums.dtype)).astype(x.dtype)
    return means


def average_gradient(sizes: Sequence[int], dy: AnyArray, windows: AverageWindows) -> AnyArray:
    """Return dx, with these sizes of its last axes: each element of dy over its divisor, added to its window.

    Sums are computed in float32 (float64 for float64) and rounded to dy's type once. Raises `ValueError` if dy has
    another number of windows.
    """
    first = dy.ndim - len(windows.axes)
    if dy.shape[first:] != windows.divisors.shape:
        raise ValueError(f"there are {windows.divisors.shape} windows, the gradient has shape {dy.shape}")
    wide = _wide(dy)
    sums = wide / windows.divisors.astype(wide.dtype)
    for axis, (size, along) in enumerate(zip(sizes, windows.axes, strict=True), first):
        spread = np.zeros((*sums.shape[:axis], size, *sums.shape[axis + 1 :]), sums.dtype)
        before = (slice(None),) * axis
        for number, span in enumerate(along):
            window = (slice(number, number + 1),)
            spread[before + (span,)] += sums[before + window]  # noqa: RUF005 - a subscript with * needs Python 3.11
        sums = spread
    dx: AnyArray = sums.astype(dy.dtype)
    return dx


def _wide(array: AnyArray) -> AnyArray:
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)
