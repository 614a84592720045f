# SPDX-License-Identifier: Apache-2.0

"""Operators that torch's ONNX exporter cannot translate, in operators that it can."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.convolution import WeightGradient, convolution_backward
from poolgrad_lowering.torch.normalization import batch_norm, group_norm, layer_norm, layer_norm_backward
from poolgrad_lowering.torch.pools import POOLS

Decompositions = dict[Any, Callable[..., Any]]
"""Functions that compute operators, by the overload of the operator."""

aten = torch.ops.aten


def decompositions(weight_gradient: WeightGradient) -> Decompositions:
    """Return torch's decompositions for an export, and those of this module over them."""
    return {
        **torch.export.default_decompositions(),
        aten.convolution_backward.default: convolution_backward(weight_gradient),
        aten._native_batch_norm_legit.default: batch_norm,  # noqa: SLF001 - the name of an operator
        aten._native_batch_norm_legit.no_stats: _batch_norm_of_this_batch,  # noqa: SLF001
        aten.native_batch_norm.default: batch_norm,
        aten.gelu.default: _gelu,
        aten.native_layer_norm.default: layer_norm,
        aten.native_layer_norm_backward.default: layer_norm_backward,
        aten.native_group_norm.default: group_norm,
        **POOLS,
        **_OF_RANDOM_NUMBERS,
        aten.empty_permuted.default: _zeros_permuted,
    }


def _batch_norm_of_this_batch(  # noqa: PLR0917 - the operator's signature
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Return x · Φ(x), Φ the normal distribution, or with "tanh" its approximation. ONNX has Gelu since opset 20."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if approximate == "tanh":
        doubled = 1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide))
    else:
        doubled = 1 + torch.erf(wide * math.sqrt(0.5))
    return (0.5 * wide * doubled).to(x.dtype)


def _native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not train or p == 0:
        return x, torch.ones_like(x, dtype=torch.bool)
    kept = _kept(x, 1 - p)
    return x * kept * (1 / (1 - p) if p < 1 else 0), kept


def _bernoulli(x: Tensor, p: float = 0.5, **_: Any) -> Tensor:
    return _kept(x, p).to(x.dtype)


def _bernoulli_in_place(x: Tensor, p: float = 0.5, **_: Any) -> Tensor:
    return x.copy_(_kept(x, p))


def _kept(x: Tensor, p: float) -> Tensor:
    """Return a mask that is true with probability p. `check` relies on this one way to draw it."""
    return torch.rand_like(x, dtype=torch.float32) < p


def _zeros_permuted(sizes: list[int], *_: Any, **options: Any) -> Tensor:
    """Return zeros: the values of an empty tensor are never read, and ONNX knows no order of axes in memory."""
    return torch.zeros(sizes, dtype=options.get("dtype"))


_OF_RANDOM_NUMBERS: Decompositions = {
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli_.float: _bernoulli_in_place,
}
