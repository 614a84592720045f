# SPDX-License-Identifier: Apache-2.0

"""The gradient of max pooling from its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def pool_gradient(
    x_shape: Sequence[int], dy: npt.NDArray[Any], indices: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[Any]:
    """Return dX: zeros, and at each recorded index the sum of the gradients that came for it.

    The sum runs over `dy` in row-major order, in float32 (float64 for float64), and is rounded to dy's dtype once.

    Args:
        x_shape: shape of the pooled tensor.
        dy: gradient of the pooled output, [N, C, *out].
        indices: ONNX MaxPool's Indices: positions in the whole, row-major x; of dy's shape.

    Raises:
        ValueError: dy and indices have different shapes.
        IndexError: an index is outside x.
    """
    if dy.shape != indices.shape:
        raise ValueError(f"dy has shape {dy.shape}, the indices {indices.shape}")
    size = int(np.prod(x_shape, dtype=np.int64))
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"indices reach from {indices.min()} to {indices.max()}, x has {size} elements")
    accumulator = np.zeros(size, np.float64 if dy.dtype == np.float64 else np.float32)
    np.add.at(accumulator, indices.reshape(-1), dy.astype(accumulator.dtype).reshape(-1))
    return accumulator.astype(dy.dtype).reshape(tuple(x_shape))


def pool_gradient_of(
    x: npt.NDArray[Any], dy: npt.NDArray[Any], indices: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[Any]:
    """Return `pool_gradient` of an operator that takes x itself, as PyTorch's and TensorFlow's do.

    Raises:
        ValueError: x and dy have different element types, which both refuse.
    """
    if x.dtype != dy.dtype:
        raise ValueError(f"dy has type {dy.dtype}, x {x.dtype}")
    return pool_gradient(x.shape, dy, indices)
