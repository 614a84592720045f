# SPDX-License-Identifier: Apache-2.0

"""Normalizations, and the gradient of a weight norm, as sums and products.

ONNX has operators of these. Its BatchNormalization cannot give the running statistics that PyTorch has, and in mixed
precision the operands of its LayerNormalization and GroupNormalization would have two types, which is invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what aten.native_batch_norm returns: y, and in train mode mean and 1/√(variance + eps) of each channel.

    In train mode the running statistics change in place, by the unbiased variance. Computes in float32 or wider.
    """
    wide = wide_type(x)
    axes, shape = [0, *range(2, x.ndim)], [-1, *[1] * (x.ndim - 2)]
    if training:
        mean = x.to(wide).mean(axes)
        centred = x.to(wide) - mean.reshape(shape)
        variance = (centred * centred).mean(axes)
        inverse = torch.rsqrt(variance + eps)
        kept = mean, inverse
        _update(running_mean, mean, momentum)
        count = x.numel() / x.shape[1]
        _update(running_var, variance * (count / (count - 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise AssertionError("in eval mode a batch norm has running statistics")
        centred = x.to(wide) - running_mean.to(wide).reshape(shape)
        inverse = torch.rsqrt(running_var.to(wide) + eps)
        kept = x.new_zeros(0, dtype=wide), x.new_zeros(0, dtype=wide)
    scale = inverse if weight is None else inverse * weight
    y = centred * scale.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y.to(x.dtype), *kept


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what aten.native_layer_norm returns: y in the type of x, mean and 1/√(variance + eps) over the last axes.

    `weight` and `bias` have the sizes `shape` of these axes. Computes in float32 or wider, which mean and 1/√ are in.
    """
    normalized, mean, inverse = _normalized(x.to(wide_type(x)), list(range(-len(shape), 0)), eps)
    y = normalized if weight is None else normalized * weight
    return (y if bias is None else y + bias).to(x.dtype), mean, inverse


def group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    size: int,  # noqa: ARG001 - the elements of a channel, which the shape of x says too
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what aten.native_group_norm returns: y in the type of x, mean and 1/√(variance + eps), (batch, groups).

    Computes in float32 or wider, which mean and 1/√ are in.
    """
    rows = x.to(wide_type(x)).reshape(batch, groups, channels // groups * math.prod(x.shape[2:]))
    normalized, mean, inverse = _normalized(rows, [2], eps)
    y, shape = normalized.reshape(x.shape), [-1, *[1] * (x.ndim - 2)]
    if weight is not None:
        y = y * weight.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y.to(x.dtype), mean.reshape(batch, groups), inverse.reshape(batch, groups)


def _normalized(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x with mean 0 and variance 1 over the axes, the mean, and 1/√(variance + eps), which keep the axes."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)
    return centred * inverse, mean, inverse


def wide_type(x: Tensor) -> torch.dtype:
    """Return float32, or the element type of x if that is wider."""
    return torch.promote_types(x.dtype, torch.float32)


def _update(running: Tensor | None, found: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(momentum * found + (1 - momentum) * running)


def weight_norm_backward(gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of v and g: g/|v| · (dw − v · (dw·v)/|v|²), and (dw·v)/|v|."""
    others = [other for other in range(v.ndim) if other != axis % v.ndim]
    along = (gradient * v).sum(others, keepdim=True)
    return g / norms * (gradient - v * (along / (norms * norms))), along / norms


NORMALIZATIONS: dict[Any, Callable[..., Any]] = {
    aten._native_batch_norm_legit.default: batch_norm,  # noqa: SLF001 - the names of operators
    aten._native_batch_norm_legit.no_stats: lambda x, weight, bias, *others: batch_norm(  # noqa: SLF001
        x, weight, bias, None, None, *others
    ),
    aten._weight_norm_interface_backward.default: weight_norm_backward,  # noqa: SLF001
    aten.native_batch_norm.default: batch_norm,
    aten.native_group_norm.default: group_norm,
    aten.native_layer_norm.default: layer_norm,
}
