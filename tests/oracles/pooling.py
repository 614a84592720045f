# SPDX-License-Identifier: Apache-2.0

"""Pooling and its gradient from their definitions: as loops over windows, each a list of positions.

Max pooling follows ONNX's operator documentation (MaxPool-12 and later), and CANN's where a function says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Windows = list[list[int]]
"""The positions in x of the elements of each window along one axis."""


def pool(x: Array, windows: Sequence[Windows], is_better: Callable[[Array, Array], Array]) -> tuple[Array, Ints]:
    """Return the maxima of x, [N, C, *spatial], and their row-major positions inside the plane.

    The elements of a window are visited in row-major order; one takes the place of the best so far if
    `is_better(element, best)`. Raises `ValueError` if a window has no element.
    """
    spatial = x.shape[2:]
    numbers = np.arange(math.prod(spatial)).reshape(spatial)
    planes = x.reshape(x.shape[0] * x.shape[1], numbers.size)
    boxes = list(itertools.product(*windows))
    maxima = np.empty((len(planes), len(boxes)), x.dtype)
    positions = np.empty(maxima.shape, np.int64)
    for number, box in enumerate(boxes):
        if not all(box):
            raise ValueError("a window lies in the padding altogether")
        first, *others = numbers[np.ix_(*box)].reshape(-1).tolist()
        best, position = planes[:, first], np.full(len(planes), first)
        for other in others:
            better = is_better(planes[:, other], best)
            best = np.where(better, planes[:, other], best)
            position = np.where(better, other, position)
        maxima[:, number], positions[:, number] = best, position
    shape = (*x.shape[:2], *map(len, windows))
    return maxima.reshape(shape), positions.reshape(shape)


def least_padding(size: int, kernel: int, stride: int) -> int:
    """Return the padding of one axis with which SAME gives ceil(size / stride) windows: the last one ends at its end.

    TensorFlow's formula (`tf.nn`, notes on padding): of the last window, size mod stride elements are in x.
    """
    in_last = size % stride or stride
    return max(kernel - in_last, 0)


def max_pool(
    x: Array,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    ceil_mode: bool = False,
    storage_order: int = 0,
) -> tuple[Array, Ints]:
    """Return MaxPool's Y and Indices, each [N, C, *out].

    The first maximum of a window in row-major order wins. A NaN wins only as the first element of its window, as in
    onnxruntime 1.31: every comparison with NaN is false.

    Args:
        x: [N, C, *spatial] of any number of spatial axes.
        kernel_shape: as ONNX's attribute.
        strides: as ONNX's attribute; 1 where absent.
        pads: as ONNX's attribute, all begins before all ends; 0 where absent.
        dilations: as ONNX's attribute; 1 where absent.
        ceil_mode: round the output size up; a last window that would start beyond the input is dropped.
        storage_order: Indices number the whole x, each plane row-major (0) or column-major (1).

    Raises:
        ValueError: a window holds no element of x.
    """
    spatial = x.shape[2:]
    windows = []
    for axis, (size, kernel) in enumerate(zip(spatial, kernel_shape, strict=True)):
        stride, dilation = strides[axis] if strides else 1, dilations[axis] if dilations else 1
        ends = (pads[axis], pads[len(spatial) + axis]) if pads else (0, 0)
        windows.append(_windows(size, kernel, stride, ends, dilation, ceil_mode=ceil_mode))
    y, positions = pool(x, windows, np.greater)
    plane = math.prod(spatial)
    in_plane = np.arange(plane).reshape(spatial, order="F" if storage_order else "C").reshape(-1)
    indices = in_plane[positions]
    for n, c in np.ndindex(x.shape[:2]):
        indices[n, c] += (n * x.shape[1] + c) * plane
    return y, indices


def max_pool_indices(
    x: Array,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    ceil_mode: bool = False,
) -> Ints:
    """Return the row-major Indices of `max_pool`."""
    return max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode=ceil_mode)[1]


def same_pads(spatial: Sequence[int], kernel_shape: Sequence[int], strides: Sequence[int], *, upper: bool) -> list[int]:
    """Return the pads that auto_pad SAME_UPPER or SAME_LOWER stands for (dilation 1).

    As ONNX documents them: the output size is ceil(size / stride), and of an odd total the larger half is at the
    end (upper) or at the begin (lower).
    """
    begins, ends = [], []
    for axis in zip(spatial, kernel_shape, strides, strict=True):
        total = least_padding(*axis)
        begins.append(math.floor(total / 2) if upper else math.ceil(total / 2))
        ends.append(total - begins[-1])
    return begins + ends


def _windows(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, *, ceil_mode: bool) -> Windows:
    """Return the windows of one axis; ONNX's formula says how many, and elements in the padding are left out."""
    quotient = (size + sum(pads) - ((kernel - 1) * dilation + 1)) / stride
    count = (math.ceil(quotient) if ceil_mode else math.floor(quotient)) + 1
    windows = []
    for start in range(-pads[0], count * stride - pads[0], stride):
        if start < size or not ceil_mode:
            taps = range(start, start + kernel * dilation, dilation)
            windows.append([tap for tap in taps if 0 <= tap < size])
    return windows


def pool_gradient(
    x_shape: Sequence[int], dy: npt.NDArray[Any], indices: npt.NDArray[np.integer[Any]], *, reverse: bool = False
) -> npt.NDArray[Any]:
    """Return dX: zeros, and at each recorded index the sum of the gradients that came for it.

    The sum runs over `dy` in row-major order, in float32 (float64 for float64), and is rounded to dy's dtype once.

    Args:
        x_shape: shape of the pooled tensor.
        dy: gradient of the pooled output, [N, C, *out].
        indices: ONNX MaxPool's Indices: positions in the whole, row-major x; of dy's shape.
        reverse: from the last gradient to the first, as Atlas A2 and A3 add those of windows of a fixed size.

    Raises:
        ValueError: dy and indices have different shapes.
        IndexError: an index is outside x.
    """
    if dy.shape != indices.shape:
        raise ValueError(f"dy has shape {dy.shape}, the indices {indices.shape}")
    dx = np.zeros(math.prod(x_shape), np.float64 if dy.dtype == np.float64 else np.float32)
    with np.errstate(all="ignore"):
        order = slice(None, None, -1 if reverse else 1)
        terms = dy.reshape(-1).astype(dx.dtype)[order]
        for index, term in zip(indices.reshape(-1)[order].tolist(), terms, strict=True):
            if not 0 <= index < dx.size:
                raise IndexError(f"index {index}: x has {dx.size} elements")
            dx[index] += term
        return dx.astype(dy.dtype).reshape(tuple(x_shape))


def check_gradient_type(x: npt.NDArray[Any], dy: npt.NDArray[Any]) -> None:
    """Raise `ValueError` if dy has another type than x: operators that take x itself refuse it."""
    if x.dtype != dy.dtype:
        raise ValueError(f"dy has type {dy.dtype}, x {x.dtype}")


def pool_windows(size: int, kernel: int, stride: int, pad: int, dilation: int, *, ceil_mode: bool) -> Windows:
    """Return the windows of a pool along an axis of `size` elements.

    A window belongs to the pool if it lies in the padded axis. With ceil_mode the next one does too, if the axis
    does not end with the one before it, and if it starts in x or its left padding.
    """
    extent = dilation * (kernel - 1) + 1
    starts = [start for start in range(-pad, size + pad, stride) if start + extent <= size + pad]
    following = -pad + len(starts) * stride
    if ceil_mode and following - stride + extent < size + pad and following < size:
        starts.append(following)
    taps = [[start + tap * dilation for tap in range(kernel)] for start in starts]
    return [[position for position in window if 0 <= position < size] for window in taps]


def adaptive_windows(size: int, count: int) -> Windows:
    """Return the windows of an adaptive pool: window i is floor(i size / count) to ceil((i + 1) size / count)."""
    return [list(range(i * size // count, -(-(i + 1) * size // count))) for i in range(count)]


def ascend_pool(x: Array, windows: Sequence[Windows]) -> tuple[Array, Ints]:
    """Return the maxima, in x's type, and their row-major positions inside the plane.

    Args:
        x: [N, C, *spatial] of any number of spatial axes.
        windows: of each spatial axis, none of them empty.
    """
    return pool(x, windows, lambda element, best: (element > best) | np.isnan(element))
