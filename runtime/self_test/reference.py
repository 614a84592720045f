"""Pools and their gradients from the definition, in numpy: what a backend's results are held against.

A gradient is y[n, c].flat[argmax[n, c, o]] += grad[n, c, o] over zeros. How a sum is rounded is the device's affair;
what is given here is the sum itself, and how far a rounded one may be from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Windows = Sequence[slice]
"""The positions in x that each window of one axis looks at."""


def pool_windows(size: int, kernel: int, stride: int, pad: int, *, ceil_mode: bool) -> Windows:
    """The windows of a pool along an axis of `size` elements, with `pad` on both ends.

    Output size as CANN documents it for aclnnMaxPool3dWithArgmax: with ceil_mode it is rounded up, and a last window
    that would start in the padding at the end is dropped.
    """
    room = size + 2 * pad - kernel
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    starts = (number * stride - pad for number in range(count))
    return [slice(max(start, 0), min(start + kernel, size)) for start in starts]


def adaptive_windows(size: int, count: int) -> Windows:
    """The windows of an adaptive pool: window i reaches from floor(i·size / count) to ceil((i + 1)·size / count)."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def pool(x: Array, windows: Sequence[Windows]) -> tuple[Array, Array]:
    """The maxima of x, (N, C, spatial axes), and their row-major positions in a plane, int32.

    Of equal maxima the first is the one, and the last NaN of a window where it has any.
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
    """A gradient in float64, and by how much an element may differ where its terms are rounded: y's shape, both."""

    y: Array
    tolerance: Array


def gradient(x_shape: Sequence[int], grad: Array, argmax: Array, epsilon: float) -> Gradient:
    """The gradient of a pool over x of this shape.

    One term, or none, is no sum: it is exact. The order of more is not promised, nor the type of partial sums: each of
    n terms may be rounded after it is added, by at most `epsilon` (of the element type, relative) of the magnitudes
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
