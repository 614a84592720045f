# SPDX-License-Identifier: Apache-2.0

"""Pooling as CANN documents it for its max-pool operators: padding only at both ends alike, indices of one plane.

NaN is greater than everything, and of several in a window the last is the maximum.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Windows = list[list[int]]
"""The positions in x of the elements of each window along one axis."""


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


def ascend_pool(x: Array, windows: Sequence[Windows]) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the maxima, in x's type, and their row-major positions inside the plane.

    Args:
        x: [N, C, *spatial] of any number of spatial axes.
        windows: of each spatial axis, none of them empty.
    """
    spatial = x.shape[2:]
    places = np.arange(int(np.prod(spatial))).reshape(spatial)
    out_shape = (*x.shape[:2], *map(len, windows))
    y, argmax = np.empty(out_shape, x.dtype), np.empty(out_shape, np.int64)
    every = (slice(None), slice(None))
    for position in itertools.product(*(range(len(axis)) for axis in windows)):
        box = np.ix_(*(axis[i] for axis, i in zip(windows, position, strict=True)))
        of_all_planes: Any = (..., *box)
        values = x[of_all_planes].reshape(*x.shape[:2], places[box].size)
        chosen = _last_nan_else_first_maximum(values.astype(np.float32))
        y[every + position] = np.take_along_axis(values, chosen[..., None], axis=-1)[..., 0]
        argmax[every + position] = places[box].reshape(-1)[chosen]
    return y, argmax


def _last_nan_else_first_maximum(values: Array) -> Array:
    nan = np.isnan(values)
    last_nan = values.shape[-1] - 1 - nan[..., ::-1].argmax(axis=-1)
    chosen: Array = np.where(nan.any(axis=-1), last_nan, values.argmax(axis=-1))
    return chosen
