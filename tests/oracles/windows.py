# SPDX-License-Identifier: Apache-2.0

"""Pooling as loops over windows, each a list of positions, for every definition of windows and of the maximum.

`poolgrad verify` has operators of its own; nothing here may come from them.
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
