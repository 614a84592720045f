# SPDX-License-Identifier: Apache-2.0

"""Interpolation along an axis as a matrix, (results, elements).

A result at position p is Σ_j w(p − j) · x_j, where the elements before the first and after the last are equal to these.
w(t) is 1 − |t| for |t| < 1, or the cubic of R. Keys, Cubic convolution interpolation for digital image processing,
1981.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Weights = Callable[[Array], Array]
"""Weights by distance."""


def linear(distances: Array) -> Array:
    """Return the weights of a linear interpolation, which are 0 from distance 1 on."""
    weights: Array = np.maximum(1 - np.abs(distances), 0)
    return weights


def cubic(distances: Array, a: float = -0.75) -> Array:
    """Return those of a cubic one with the slope a at distance 1, which are 0 from distance 2 on."""
    t = np.abs(distances)
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((t - 5) * t + 8) * t * a - 4 * a
    return np.where(t < 1, near, np.where(t < 2, far, 0))


def taps(positions: Array, size: int, radius: int, weights: Weights, *, exclude_outside: bool = False) -> Array:
    """Return the matrix for results at these positions, with weights that are 0 from `radius` on.

    With `exclude_outside`, elements beyond the ends count nothing, and the weights of the others are divided by their
    sum.
    """
    results = np.arange(len(positions))
    matrix = np.zeros((len(positions), size))
    for tap in range(1 - radius, radius + 1):
        elements = np.floor(positions) + tap
        inside = (elements >= 0) & (elements < size) if exclude_outside else True
        places = elements.clip(0, size - 1).astype(np.int64)
        np.add.at(matrix, (results, places), np.where(inside, weights(positions - elements), 0))
    return matrix / matrix.sum(1, keepdims=True) if exclude_outside else matrix


def antialiased(weights: Weights, size: int, count: int, ratio: float) -> Array:
    """Return the matrix for `count` results, `ratio` elements apart, with weights that reach as much farther.

    They are divided by their sum, to which elements beyond the ends do not count.
    """
    distances = np.arange(size) + 0.5 - ratio * (np.arange(count) + 0.5)[:, None]
    found = weights(distances / max(ratio, 1.0))
    matrix: Array = found / found.sum(1, keepdims=True)
    return matrix
