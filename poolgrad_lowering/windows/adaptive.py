# SPDX-License-Identifier: Apache-2.0

"""The windows of adaptive pooling."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", int, npt.NDArray[np.int64])


def adaptive_bounds(number: Number, size: int, count: int) -> tuple[Number, Number]:
    """Return the first element and the end of window `number`, of `count` windows over `size` elements.

    Formula: PyTorch's documentation of AdaptiveMaxPool, and CANN's of aclnnAdaptiveMaxPool3d: window o contains
    ⌊o·size/count⌋ … ⌈(o+1)·size/count⌉ − 1.
    """
    return number * size // count, -(-(number + 1) * size // count)
