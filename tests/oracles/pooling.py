# SPDX-License-Identifier: Apache-2.0

"""Max pooling from its definition in ONNX's operator documentation (MaxPool-12 and later)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


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
    spatial, rank = x.shape[2:], len(kernel_shape)
    steps = list(strides or [1] * rank)
    spacing = list(dilations or [1] * rank)
    begins, ends = np.reshape(pads or [0] * 2 * rank, (2, rank)).tolist()
    starts = [
        _window_starts(size, (k - 1) * d + 1, s, begin, end, ceil_mode=ceil_mode)
        for size, k, d, s, begin, end in zip(spatial, kernel_shape, spacing, steps, begins, ends, strict=True)
    ]
    numbering = _numbering(x.shape, storage_order)
    out_shape = (*x.shape[:2], *map(len, starts))
    indices = np.full(out_shape, -1, np.int64)
    best = np.zeros(out_shape, x.dtype)
    for tap in itertools.product(*map(range, kernel_shape)):
        at = [start + t * d for start, t, d in zip(starts, tap, spacing, strict=True)]
        inside = _every([(a >= 0) & (a < size) for a, size in zip(at, spatial, strict=True)])
        clipped = [np.clip(a, 0, size - 1) for a, size in zip(at, spatial, strict=True)]
        here = np.ix_(np.arange(x.shape[0]), np.arange(x.shape[1]), *clipped)
        better = inside & ((indices < 0) | (x[here] > best))
        indices = np.where(better, numbering[here], indices)
        best = np.where(better, x[here], best)
    if (indices < 0).any():
        raise ValueError("a window lies in the padding altogether")
    return best, indices


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
    totals = [
        max((-(-size // s) - 1) * s + k - size, 0) for size, k, s in zip(spatial, kernel_shape, strides, strict=True)
    ]
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return smaller + larger if upper else larger + smaller


def _window_starts(size: int, extent: int, stride: int, begin: int, end: int, *, ceil_mode: bool) -> Ints:
    """Return where the windows of one axis start: positions in the input, negative in the padding."""
    room = size + begin + end - extent
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    starts = np.arange(count, dtype=np.int64) * stride - begin
    return starts[starts < size] if ceil_mode else starts


def _numbering(shape: Sequence[int], storage_order: int) -> Ints:
    """Return the index of every element of x: planes in row-major order, their elements as storage_order says."""
    spatial = shape[2:]
    plane = np.arange(np.prod(spatial, dtype=np.int64)).reshape(spatial, order="F" if storage_order else "C")
    first = np.arange(shape[0] * shape[1], dtype=np.int64) * plane.size
    return first.reshape(*shape[:2], *[1] * len(spatial)) + plane


def _every(masks: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Return the conjunction of one mask per axis over their product."""
    return np.asarray(np.stack(np.meshgrid(*masks, indexing="ij")).all(axis=0))
