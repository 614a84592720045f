# SPDX-License-Identifier: Apache-2.0

"""Pooling as CANN documents it for its max-pool operators: padding only at both ends alike, indices of one plane.

NaN is greater than everything, and of several in a window the last is the maximum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.oracles.windows import Array, Ints, Windows, pool


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
