# SPDX-License-Identifier: Apache-2.0

"""Products with one constant matrix along each of the last axes of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolgrad_lowering.torch.normalization import wide_type
from poolgrad_lowering.torch.own_operators import product


class _AlongAxes(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, matrices: Sequence[np.ndarray]) -> Tensor:
        context.matrices = matrices
        return _products(x, matrices, range(-len(matrices), 0))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return products_from_the_last_axis(gradient, [matrix.T for matrix in context.matrices]), None


def along_axes(x: Tensor, matrices: Sequence[np.ndarray]) -> Tensor:
    """Return x multiplied by a matrix, new size by old size, along each of its last axes. It has a gradient.

    Computes in float32 or wider. An infinity or NaN spreads to its whole plane, since it is multiplied by the zeros of
    the matrices.
    """
    return _AlongAxes.apply(x, matrices)


def products_from_the_last_axis(x: Tensor, matrices: Sequence[np.ndarray]) -> Tensor:
    """Return the same, which has no gradient, from the last axis to the first: the fastest order for gradients."""
    return _products(x, matrices, range(-1, -len(matrices) - 1, -1))


def _products(x: Tensor, matrices: Sequence[np.ndarray], order: range) -> Tensor:
    found = x.to(wide_type(x))
    for axis in order:
        matrix = matrices[axis]
        if np.array_equal(matrix, np.eye(len(matrix))):
            continue
        if axis == -1:
            found = product(found, torch.tensor(matrix.T.tolist(), dtype=found.dtype))
            continue
        shape, inner = found.shape, found.shape[found.ndim + axis + 1 :]
        rows = found.reshape(*shape[: found.ndim + axis + 1], math.prod(inner)) if len(inner) > 1 else found
        found = product(torch.tensor(matrix.tolist(), dtype=found.dtype), rows)
        found = found.reshape(*shape[:axis], len(matrix), *inner) if len(inner) > 1 else found
    return found.to(x.dtype)
