# SPDX-License-Identifier: Apache-2.0

"""Max pooling and its gradient in numpy, over any number of spatial axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.verification.arrays import AnyArray, IntArray

_EMPTY = "a window is entirely in the padding"

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
    sizes, (begins, ends) = x.shape[2:], pads
    axes = list(zip(sizes, kernel, strides, dilations, begins, ends, strict=True))
    counts = [window_count(size, d * (k - 1) + 1, s, b, e, ceil=ceil) for size, k, s, d, b, e in axes]
    if math.prod(counts) < math.prod(kernel):  # fewer steps of larger arrays
        each_axis = [
            [_elements(o * s - b, size, k, d) for o in range(count)]
            for count, (size, k, s, d, b, _) in zip(counts, axes, strict=True)
        ]
        return _pool_each(x, each_axis, last_nan=last_nan)
    y = np.zeros((*x.shape[:2], *counts), x.dtype)
    positions = np.full(y.shape, -1, np.int64)
    plane = np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes)
    for tap in itertools.product(*map(range, kernel)):
        offsets = [t * d - b for t, d, b in zip(tap, dilations, begins, strict=True)]
        windows, elements = [slice(None)] * 2, [slice(None)] * 2
        for offset, count, stride, size in zip(offsets, counts, strides, sizes, strict=True):
            first = max(0, -(offset // stride))  # the first window that has this tap inside x
            end = min(count, (size - 1 - offset) // stride + 1)
            windows.append(slice(first, max(first, end)))
            start = first * stride + offset
            elements.append(slice(start, start + max(0, end - first) * stride, stride))
        _take(y[tuple(windows)], positions[tuple(windows)], x[tuple(elements)], plane[tuple(elements[2:])], last_nan)
    if (positions < 0).any():
        raise ValueError(_EMPTY)
    return y, positions


def _elements(start: int, size: int, kernel: int, dilation: int) -> slice:
    """Return the elements of an axis in the window that begins at `start`. Raises `ValueError` if there are none."""
    first = start if start >= 0 else start % dilation
    end = min(start + (kernel - 1) * dilation + 1, size)
    if first >= end:
        raise ValueError(_EMPTY)
    return slice(first, end, dilation)


def _pool_each(x: AnyArray, windows: Sequence[Sequence[slice]], *, last_nan: bool) -> tuple[AnyArray, IntArray]:
    """Return the result of `max_pool` for the windows of each axis, one window after the other."""
    y = np.zeros((*x.shape[:2], *map(len, windows)), x.dtype)
    positions = np.zeros(y.shape, np.int64)
    plane = np.arange(math.prod(x.shape[2:]), dtype=np.int64).reshape(x.shape[2:])
    planes = (slice(None), slice(None))
    for place in np.ndindex(y.shape[2:]):
        window = tuple(slices[number] for slices, number in zip(windows, place, strict=True))
        inside = x[planes + window].reshape(*x.shape[:2], -1)
        best = _maximum(inside, last_nan=last_nan)
        y[planes + place] = np.take_along_axis(inside, best[..., None], -1)[..., 0]
        positions[planes + place] = plane[window].reshape(-1)[best]
    return y, positions


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


def adaptive_max_pool(x: AnyArray, counts: Sequence[int]) -> tuple[AnyArray, IntArray]:
    """As PyTorch's `max_pool`, with window o of an axis from floor(o·I/O) to ceil((o+1)·I/O) − 1."""
    windows = [
        [slice(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]
        for size, count in zip(x.shape[2:], counts, strict=True)
    ]
    return _pool_each(x, windows, last_nan=True)


def scatter_gradient(shape: Sequence[int], dy: AnyArray, indices: npt.NDArray[np.integer[Any]]) -> AnyArray:
    """Return dx of a max pool: zeros, plus dy at `indices` into the whole row-major x, in the order of dy.

    Sums are computed in float32 (float64 for float64) and rounded to dy's type once. Raises `IndexError` for an index
    outside x.
    """
    size = math.prod(shape)
    if indices.shape != dy.shape:
        raise ValueError(f"indices have shape {indices.shape}, the gradient has shape {dy.shape}")
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices reach from {indices.min()} to {indices.max()}, x has {size} elements")
    sums = np.zeros(size, np.float64 if dy.dtype == np.float64 else np.float32)
    np.add.at(sums, indices.reshape(-1), dy.astype(sums.dtype).reshape(-1))
    return sums.astype(dy.dtype).reshape(tuple(shape))


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


def _take(y: AnyArray, positions: IntArray, elements: AnyArray, places: IntArray, last_nan: bool) -> None:
    """Update the maxima of all windows with one tap of each; writes into the views `y` and `positions`."""
    better = (positions < 0) | (elements > y)
    if last_nan:
        better = (better & ~np.isnan(y)) | np.isnan(elements)
    np.copyto(y, elements, where=better)
    np.copyto(positions, np.broadcast_to(places, positions.shape), where=better)
