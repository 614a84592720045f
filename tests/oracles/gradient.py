# SPDX-License-Identifier: Apache-2.0

"""The gradient of max pooling from its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


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
