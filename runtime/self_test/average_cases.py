# SPDX-License-Identifier: Apache-2.0

"""The gradients of average pools that the self-test runs: operators, windows, and the definition in numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.runtime.self_test.poolings import Pooling
from poolgrad_lowering.runtime.self_test.reference import Array, Gradient


def is_exact(pooling: Pooling) -> bool:
    """Whether all divisors are powers of two, so that sums of whole numbers are exact in every arithmetic."""
    return all(divisor & (divisor - 1) == 0 for divisor, _ in _divided(pooling))


def average_gradient(pooling: Pooling, grad: Array, epsilon: float) -> Gradient:
    """Return the gradient of x by the definition.

    A term is g / d, or g · (1 / d) with the reciprocal rounded to the element type. For n terms the tolerance is
    (n + 2) · epsilon · Σ|terms|, where `epsilon` is the type's relative spacing; see `reference.gradient`.
    """
    x_shape = pooling.x_shape
    total, magnitude, count = np.zeros((3, *x_shape))
    for divisor, (window, box) in _divided(pooling):
        term = grad[window].astype(np.float64) / divisor
        term = term.reshape(*term.shape, *[1] * (len(x_shape) - 2))
        total[box] += term
        magnitude[box] += np.abs(term)
        count[box] += 1
    return Gradient(total, (count + 2) * epsilon * magnitude)


def _counts(pooling: Pooling) -> list[list[int]]:
    """The number of elements that each window counts along each axis."""
    windows = pooling.windows()
    if not pooling.count_include_pad:
        return [[window.stop - window.start for window in axis] for axis in windows]
    axes = zip(pooling.x_shape[2:], pooling.kernel, pooling.strides, pooling.pads, windows, strict=True)
    return [
        [min(kernel, size + 2 * pad - number * stride) for number in range(len(axis))]
        for size, kernel, stride, pad, axis in axes
    ]


def _divided(pooling: Pooling) -> list[tuple[int, tuple[Any, Any]]]:
    """The divisor of each window, with its position in the gradient and its elements of x."""
    windows, counts, every = pooling.windows(), _counts(pooling), (slice(None), slice(None))
    found = []
    for position in itertools.product(*(range(len(axis)) for axis in windows)):
        box = tuple(axis[number] for axis, number in zip(windows, position, strict=True))
        counted = math.prod(axis[number] for axis, number in zip(counts, position, strict=True))
        found.append((pooling.divisor or counted, (every + position, every + box)))
    return found


_POOLINGS = (
    Pooling("1-D", (2, 3, 12), (2,), (2,), (0,)),
    Pooling("2-D", (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    Pooling("2-D overlapping", (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    Pooling("2-D, padding counts", (2, 3, 9, 9), (4, 4), (2, 2), (1, 1), count_include_pad=True),
    Pooling("2-D ceil, a divisor", (2, 3, 7, 9), (3, 3), (2, 2), (0, 0), ceil_mode=True, divisor=4),
    Pooling("2-D global, padded", (2, 3, 12, 11), (12, 11), (30, 30), (4, 3)),
    Pooling("3-D", (2, 3, 4, 6, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0)),
    Pooling("3-D overlapping, ceil", (1, 2, 5, 6, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), ceil_mode=True),
    Pooling("adaptive 1-D", (2, 3, 12), output_size=(3,)),
    Pooling("adaptive 2-D, uneven", (2, 3, 7, 8), output_size=(3, 5)),
    Pooling("adaptive 2-D to one", (2, 3, 8, 4), output_size=(1, 1)),
    Pooling("adaptive 3-D, uneven", (2, 2, 5, 6, 7), output_size=(2, 4, 3)),
)

_OPERATORS = tuple(op for op in OPS.values() if op.is_gradient and not op.has_argmax)

AVERAGE_CASES = tuple((op, pooling) for op in _OPERATORS for pooling in _POOLINGS if pooling.suits(op))
"""Each operator with windows that it can express."""
