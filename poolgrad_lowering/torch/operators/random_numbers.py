# SPDX-License-Identifier: Apache-2.0

"""Operators that draw random numbers, computed from uniform and normal ones, which ONNX has."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.operators.elementwise import in_place

aten = torch.ops.aten


def _native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not train or p == 0:
        return x, torch.ones_like(x, dtype=torch.bool)
    if p == 1:  # which draws nothing
        return x * 0, torch.zeros_like(x, dtype=torch.bool)
    kept = _kept(x, 1 - p)
    return x * kept * (1 / (1 - p)), kept


def _kept(x: Tensor, p: float | Tensor) -> Tensor:
    """Return a mask that is true with probability p."""
    return torch.rand_like(x, dtype=torch.float32) < p


def _exponential(x: Tensor) -> Tensor:
    """Return exponential random numbers of the shape of x. As in PyTorch none is 0: a uniform number may be."""
    return -(1 - torch.rand_like(x)).log().clamp(max=-torch.finfo(x.dtype).eps / 2)


def _multinomial(weights: Tensor, count: int, replacement: bool = False, **_: Any) -> Tensor:
    """Return random positions by their weights, those of the first events of processes with these rates, as torch does.

    With replacement each of several is of processes of its own.
    """
    if replacement and count > 1:
        weights = weights.unsqueeze(-2).expand(*weights.shape[:-1], count, weights.shape[-1])
        return (weights / _exponential(weights)).argmax(-1)
    return (weights / _exponential(weights)).topk(count).indices


def _random_slopes(
    x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *_: Any
) -> tuple[Tensor, Tensor]:
    """Return x with a slope where it is not positive, which is random in train mode, and what noise is then."""
    slope = lower + (upper - lower) * torch.rand_like(x) if training else (lower + upper) / 2
    slopes = torch.where(x > 0, 1, slope)
    return x * slopes, slopes if training else noise


def _random_slopes_noted(x: Tensor, noise: Tensor, *others: Any, **_: Any) -> Tensor:
    """Return x with these slopes, which are written to noise."""
    result, slopes = _random_slopes(x, noise, *others)
    noise.copy_(slopes)
    return result


def _integers(uniform: Tensor, start: int, end: int) -> Tensor:
    """Return random integers from `start` up to `end` from uniform numbers, which are multiples of 2 ** -24.

    Raises `TorchExportError` for more integers than there are uniform numbers.
    """
    count = end - start
    if count > _UNIFORM_NUMBERS:
        raise TorchExportError(
            f"the model draws random integers, one of {count}: a step draws one of {_UNIFORM_NUMBERS} at most"
        )
    numbers = (uniform * _UNIFORM_NUMBERS).to(torch.int64) * count
    drawn = torch.div(numbers, _UNIFORM_NUMBERS, rounding_mode="trunc")
    return drawn.clamp(max=count - 1) + start  # a uniform number of onnxruntime may be 1


def _integers_like(x: Tensor, start: int, end: int) -> Tensor:
    return _integers(torch.rand_like(x, dtype=torch.float32), start, end)


_UNIFORM_NUMBERS = 2**24
"""The uniform random numbers of float32."""

OF_RANDOM_NUMBERS: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.default: lambda x, **_: _kept(x, x).to(x.dtype),
    aten.bernoulli.p: lambda x, p=0.5, **_: _kept(x, p).to(x.dtype),
    aten.bernoulli_.float: lambda x, p=0.5, **_: x.copy_(_kept(x, p)),
    aten.normal.Tensor_float: lambda mean, std=1.0, **_: mean + std * torch.randn_like(mean),
    aten.normal.float_Tensor: lambda mean, std, **_: mean + std * torch.randn_like(std),
    aten.normal.Tensor_Tensor: lambda mean, std, **_: mean + std * torch.randn_like(mean + std),
    aten.normal.float_float: lambda mean, std, sizes, dtype=None, **_: mean + std * torch.randn(sizes, dtype=dtype),
    aten.normal_.default: lambda x, mean=0.0, std=1.0, **_: x.copy_(mean + std * torch.randn_like(x)),
    aten.uniform_.default: lambda x, low=0.0, high=1.0, **_: x.copy_(low + (high - low) * torch.rand_like(x)),
    aten.exponential_.default: lambda x, rate=1.0, **_: x.copy_(_exponential(x) / rate),
    aten.geometric_.default: lambda x, p, **_: x.copy_((_exponential(x) / -math.log1p(-p)).ceil()),
    aten.cauchy_.default: lambda x, median=0.0, width=1.0, **_: x.copy_(
        median + width * (math.pi * (torch.rand_like(x) - 0.5)).tan()
    ),
    aten.randint.default: lambda end, sizes, **options: aten.randint.low(0, end, sizes, **options),
    aten.randint.low: lambda start, end, sizes, dtype=None, **_: _integers(torch.rand(sizes), start, end).to(
        dtype or torch.int64
    ),
    aten.randint_like.default: lambda x, end, dtype=None, **_: _integers_like(x, 0, end).to(dtype or x.dtype),
    aten.randint_like.low_dtype: lambda x, start, end, dtype=None, **_: _integers_like(x, start, end).to(
        dtype or x.dtype
    ),
    aten.random_.to: lambda x, end, **_: x.copy_(_integers_like(x, 0, end)),
    getattr(aten.random_, "from"): lambda x, start, end, **_: x.copy_(_integers_like(x, start, end)),
    aten.multinomial.default: _multinomial,
    aten.randperm.default: lambda count, dtype=None, **_: torch.rand(count).argsort().to(dtype or torch.int64),
    aten.rrelu_with_noise.default: _random_slopes_noted,
    aten.rrelu_with_noise_.default: partial(in_place, _random_slopes_noted),
    aten.rrelu_with_noise_functional.default: lambda *arguments, **_: _random_slopes(*arguments),
    aten.log_normal_.default: lambda x, mean=1.0, std=2.0, **_: x.copy_((mean + std * torch.randn_like(x)).exp()),
}
"""Operators that draw other random numbers than uniform and normal ones, which they are computed from."""
