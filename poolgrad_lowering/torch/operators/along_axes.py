# SPDX-License-Identifier: Apache-2.0

"""Products with one matrix along each of the last axes of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from poolgrad_lowering.torch.operators.normalization import wide_type
from poolgrad_lowering.torch.own_operators import product

Matrix: TypeAlias = np.ndarray | Tensor
"""New size by old size: a constant, or what a symbolic size makes."""


class _AlongAxes(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, matrices: Sequence[Matrix], gradients: Sequence[Matrix]) -> Tensor:
        context.matrices = gradients
        return _products(x, matrices, range(-len(matrices), 0))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        return products_from_the_last_axis(gradient, [matrix.T for matrix in context.matrices]), None, None


def along_axes(x: Tensor, matrices: Sequence[Matrix], gradients: Sequence[Matrix] | None = None) -> Tensor:
    """Return x multiplied by a matrix along each of its last axes. Its gradient is that of `gradients`, if given.

    Computes in float32 or wider. An infinity or NaN spreads to its whole plane, since it is multiplied by the zeros of
    the matrices.
    """
    return _AlongAxes.apply(x, matrices, gradients or matrices)


def products_from_the_last_axis(x: Tensor, matrices: Sequence[Matrix]) -> Tensor:
    """Return the same, which has no gradient, from the last axis to the first: the fastest order for gradients."""
    return _products(x, matrices, range(-1, -len(matrices) - 1, -1))


def _products(x: Tensor, matrices: Sequence[Matrix], order: range) -> Tensor:
    found = x.to(wide_type(x))
    for axis in order:
        matrix = matrices[axis]
        if isinstance(matrix, np.ndarray) and np.array_equal(matrix, np.eye(len(matrix))):
            continue
        if axis == -1:
            found = product(found, _tensor(matrix.T, found.dtype))
            continue
        shape, inner = found.shape, found.shape[found.ndim + axis + 1 :]
        if sum(not isinstance(size, int) for size in inner) > 1:  # joined, a graph could not part them
            found = product(found.movedim(axis, -1), _tensor(matrix.T, found.dtype)).movedim(-1, axis)
            continue
        rows = found.reshape(*shape[: found.ndim + axis + 1], math.prod(inner)) if len(inner) > 1 else found
        found = product(_tensor(matrix, found.dtype), rows)
        found = found.reshape(*shape[:axis], matrix.shape[0], *inner) if len(inner) > 1 else found
    return found.to(x.dtype)


def _tensor(matrix: Matrix, dtype: torch.dtype) -> Tensor:
    return matrix.to(dtype) if isinstance(matrix, Tensor) else torch.tensor(matrix.tolist(), dtype=dtype)


def places(count: Any) -> Tensor:
    """Return 0, 1, … of a number of elements, which may be symbolic, in float32."""
    return torch.arange(count).to(torch.float32)  # not of floats, whose number a graph does not say


def last(numbers: Tensor) -> Tensor:
    """Return the last one of `places`, with one axis."""
    return numbers.amax(0, keepdim=True)  # a graph says that it is one number, as it does not of numbers[-1:]
