# SPDX-License-Identifier: Apache-2.0

"""Products of a matrix and a tensor with several symbolic sizes, whose axes stay apart.

torch joins the axes of the tensor and parts them again. To part them, a graph has to compute a shape, which GE has to
know: one size can follow from the others, two cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from poolgrad_lowering.torch.internals.tracing import is_number
from poolgrad_lowering.torch.own_operators import product

aten = torch.ops.aten


class _Product(Function):
    @staticmethod
    def forward(context: Any, x: Tensor, matrix: Tensor) -> Tensor:
        context.save_for_backward(x, matrix)
        return product(x, matrix)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,), (x, matrix) = gradients, context.saved_tensors
        times = torch.matmul if torch.is_grad_enabled() else product  # which has no gradient
        return times(gradient, matrix.t()), x.flatten(0, -2).t() @ gradient.flatten(0, -2)


def matmul(x: Tensor, matrix: Tensor) -> Tensor:
    """Return the product with a matrix. Returns `NotImplemented` for at most one symbolic size before the last."""
    if matrix.ndim != _AXES_OF_A_MATRIX or sum(not is_number(size) for size in x.shape[:-1]) <= 1:
        return NotImplemented
    found: Tensor = _Product.apply(x, matrix)
    return found


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the product with a transposed matrix, and a bias added. Returns `NotImplemented` as `matmul` does."""
    found = matmul(x, weight.t())
    return found if found is NotImplemented or bias is None else found + bias


_AXES_OF_A_MATRIX = 2

PRODUCTS: dict[Any, Callable[..., Tensor]] = {aten.linear.default: linear, aten.matmul.default: matmul}
"""The functions by the overload of the operator that they compute."""
