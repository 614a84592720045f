# SPDX-License-Identifier: Apache-2.0

"""Functions of torch whose gradients no graph can have as autograd makes them, in other functions of torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from poolgrad_lowering.torch.compositions import COMPOSITIONS


class Rewritten(TorchFunctionMode):
    """While it is active, these functions are computed by others."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function, or what is written for it."""
        return _WRITTEN.get(function, function)(*args, **(kwargs or {}))


def _in_order(pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that gives a pool its input with the axes in order.

    Of others it sets the strides of its result, and the gradient of that is about the memory of a tensor.
    """

    def run(input: Tensor, *sizes: Any, **named: Any) -> Tensor:  # noqa: A002 - the name in torch
        return pool(input.contiguous(), *sizes, **named)

    return run


def _max_pool1d(*arguments: Any, return_indices: bool = False, **named: Any) -> Any:
    """Return the pool by torch's function with indices: the one without makes a symbolic size a number."""
    *of_pool, return_indices = (*arguments, return_indices) if len(arguments) < _PARAMETERS_OF_A_POOL else arguments
    found = torch.max_pool1d_with_indices(*of_pool, **named)
    return found if return_indices else found[0]


def _gaussian_nll_loss(  # noqa: PLR0917 - the function's signature
    input: Tensor,  # noqa: A002 - the name in torch
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return ½·(log v + (input − target)²/v) with v = max(var, eps), of whose max the gradient is that of var.

    torch's own asks whether a variance is negative, which no graph can.
    """
    variance = input.new_full(input.shape, var) if isinstance(var, float) else var
    if variance.shape == input.shape[:-1] and variance.ndim < input.ndim:
        variance = variance[..., None]
    variance = variance + (variance.clamp(min=eps) - variance).detach()
    loss = 0.5 * (variance.log() + (input - target) ** 2 / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda value: value}[reduction](loss)


_PARAMETERS_OF_A_POOL = 7
"""Those of max_pool1d in torch.nn.functional; `return_indices` is the last one."""

_WRITTEN: dict[Any, Callable[..., Tensor]] = {
    **COMPOSITIONS,
    functional.max_pool1d: _max_pool1d,
    torch.max_pool1d: _max_pool1d,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    **{
        pool: _in_order(pool)
        for pool in (
            functional.adaptive_avg_pool1d,
            functional.adaptive_avg_pool2d,
            functional.adaptive_avg_pool3d,
        )
    },
}
