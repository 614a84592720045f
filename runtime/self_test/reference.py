# SPDX-License-Identifier: Apache-2.0

"""Pools and their gradients by their definition, in numpy: the reference for a backend's results.

A gradient is y[n, c].flat[argmax[n, c, o]] += grad[n, c, o] over zeros. Devices round sums differently; this module
computes the sum in float64 and the largest distance of a rounded sum from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Windows = Sequence[slice]
"""The range of positions in x of each window of one axis."""


def pool_windows(size: int, kernel: int, stride: int, pad: int, *, ceil_mode: bool) -> Windows:
    """Return the windows of a pool on an axis of `size` elements, with `pad` at both ends.

    The output size is that of CANN's documentation of aclnnMaxPool3dWithArgmax: with ceil_mode it is rounded up, and a
    last window that would start in the end padding is dropped.
    """
    room = size + 2 * pad - kernel
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    starts = (number * stride - pad for number in range(count))
    return [slice(max(start, 0), min(start + kernel, size)) for start in starts]


def adaptive_windows(size: int, count: int) -> Windows:
    """Return the windows of an adaptive pool: window i is floor(i·size / count) … ceil((i + 1)·size / count) − 1."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def pool(x: Array, windows: Sequence[Windows]) -> tuple[Array, Array]:
    """Return the maxima of x, (N, C, spatial axes), and their row-major positions in a plane, int32.

    Of equal maxima the first is selected; in a window with NaN, the last NaN.
    """
    places = np.arange(int(np.prod(x.shape[2:])), dtype=np.int32).reshape(x.shape[2:])
    pooled = (*x.shape[:2], *map(len, windows))
    planes = (slice(None), slice(None))
    y, argmax = np.empty(pooled, x.dtype), np.empty(pooled, np.int32)
    for position in itertools.product(*(range(len(axis)) for axis in windows)):
        box: tuple[slice, ...] = tuple(axis[i] for axis, i in zip(windows, position, strict=True))
        values = x[planes + box].reshape(*x.shape[:2], -1)
        nan = np.isnan(values)
        last_nan = values.shape[-1] - 1 - nan[..., ::-1].argmax(axis=-1)
        chosen = np.where(nan.any(axis=-1), last_nan, values.argmax(axis=-1))
        y[planes + position] = np.take_along_axis(values, chosen[..., None], axis=-1)[..., 0]
        argmax[planes + position] = places[box].reshape(-1)[chosen]
    return y, argmax


class Gradient(NamedTuple):
    """A gradient `y` in float64, and the `tolerance` of each element for rounded terms; both have y's shape."""

    y: Array
    tolerance: Array


def gradient(x_shape: Sequence[int], grad: Array, argmax: Array, epsilon: float) -> Gradient:
    """Return the gradient of a pool over x of this shape.

    An element with at most one term is exact. For n terms, neither their order nor the type of partial sums is
    specified: each addition can round by at most `epsilon` (the element type's relative spacing) times the magnitudes
    that were added, so the tolerance is n · epsilon · Σ|terms|.
    """
    planes = int(np.prod(x_shape[:2]))
    plane = int(np.prod(x_shape[2:]))
    places = (np.arange(planes)[:, None] * plane + argmax.reshape(planes, -1)).reshape(-1)
    terms = grad.reshape(-1).astype(np.float64)
    total, magnitude = (np.bincount(places, values, planes * plane) for values in (terms, np.abs(terms)))
    count = np.bincount(places, minlength=planes * plane)
    tolerance = np.where(count > 1, count * epsilon * magnitude, 0.0)
    return Gradient(total.reshape(x_shape), tolerance.reshape(x_shape))
