# SPDX-License-Identifier: Apache-2.0

"""Normalizations and their gradients, and that of a weight norm, as sums and products.

ONNX has operators of these. Its BatchNormalization cannot give the running statistics that PyTorch has, and in mixed
precision the operands of its LayerNormalization and GroupNormalization would have two types, which is invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.internals.tracing import decompositions_of

aten = torch.ops.aten
_BACKWARD = decompositions_of([aten.native_group_norm_backward])[aten.native_group_norm_backward.default]


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
        count = x.numel() / x.shape[1]
        _update(running_mean, mean, momentum)
        _update(running_var, variance, momentum, count / (count - 1))
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


def batch_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    inverse: Tensor | None,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return what aten.native_batch_norm_backward returns: the `wanted` ones of the gradients of x, weight and bias.

    With c = x − mean, that of x in train mode is (dy − avg(dy) − c · avg(dy · c) / (variance + eps)), times the weight
    and 1/√(variance + eps), by averages over a channel; in eval mode it is dy times the same. Those of weight and bias
    are the sums of dy · c / √(variance + eps) and of dy. Computes in float32 or wider.
    """
    wide, axes, shape = wide_type(x), [0, *range(2, x.ndim)], [-1, *[1] * (x.ndim - 2)]
    if not training and running_mean is not None and running_var is not None:
        mean, inverse = running_mean.to(wide), torch.rsqrt(running_var.to(wide) + eps)
    if mean is None or inverse is None:
        raise AssertionError("a gradient of a batch norm reads the statistics of the batch, or running ones")
    given, centred = dy.to(wide), x.to(wide) - mean.reshape(shape)
    total, along = given.sum(axes), (given * centred).sum(axes)
    dx, scale = given, inverse if weight is None else inverse * weight
    if training:
        count = x.numel() / x.shape[1]
        factor = along / count * (inverse * inverse)
        dx = given - centred * factor.reshape(shape) - (total / count).reshape(shape)
    return _wanted((dx * scale.reshape(shape)).to(x.dtype), [along * inverse, total], weight, wanted)


def differentiable_batch_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, *others: Any
) -> tuple[Tensor | None, ...]:
    """Return what aten.native_batch_norm_backward returns, for gradients of it the statistics as functions of x."""
    mean_before, variance_before, mean, inverse, training, eps, wanted = others
    if training and torch.is_grad_enabled():
        axes = [0, *range(2, x.ndim)]
        mean, inverse = (each.flatten() for each in _normalized(x.to(wide_type(x)), axes, eps)[1:])
    return batch_norm_backward(dy, x, weight, mean_before, variance_before, mean, inverse, training, eps, wanted)


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

    Computes in float32 or wider, which mean and 1/√ are in. Planes of symbolic sizes stay what they are: a Reshape
    could not tell these sizes.
    """
    shape = [-1, *[1] * (x.ndim - 2)]
    if has_symbolic_planes(x):
        centred = x.to(wide_type(x))
        mean = _average(centred, groups)
        centred = centred - _of_channels(mean, x)
        inverse = torch.rsqrt(_average(centred * centred, groups) + eps)
        y = centred * _of_channels(inverse, x)
    else:
        rows = x.to(wide_type(x)).reshape(batch, groups, channels // groups * math.prod(x.shape[2:]))
        normalized, mean, inverse = _normalized(rows, [2], eps)
        y = normalized.reshape(x.shape)
        mean, inverse = mean.reshape(batch, groups), inverse.reshape(batch, groups)
    if weight is not None:
        y = y * weight.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y.to(x.dtype), mean, inverse


def group_norm_backward(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return what aten.native_group_norm_backward returns: the `wanted` ones of the gradients of x, weight and bias.

    Planes of symbolic sizes stay what they are; others are computed as torch does. With x̂ the normalized x and g the
    product of dy and the weight, the gradient of x is (g − avg(g) − x̂ · avg(g · x̂)) / √(variance + eps), by averages
    over groups, and those of weight and bias are the sums of dy · x̂ and of dy.
    """
    if not has_symbolic_planes(x):
        return _BACKWARD(dy, x, mean, inverse, weight, batch, channels, size, groups, wanted)
    wide = wide_type(x)
    scale = _of_channels(inverse, x)
    normalized, given = (x.to(wide) - _of_channels(mean, x)) * scale, dy.to(wide)
    g = given if weight is None else given * weight.to(wide).reshape([-1, *[1] * (x.ndim - 2)])
    dx = _before_normalized(g, normalized, scale, lambda each: _of_channels(_average(each, groups), x))
    sums = [each.sum([0, *range(2, x.ndim)]) for each in (given * normalized, given)]
    return _wanted(dx.to(x.dtype), sums, weight, wanted)


def layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,  # noqa: ARG001 - the operator's signature
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return what aten.native_layer_norm_backward returns: the `wanted` ones of the gradients of x, weight and bias."""
    wide, outer = wide_type(x), x.ndim - len(shape)
    normalized, given = (x.to(wide) - mean) * inverse, dy.to(wide)
    g = given if weight is None else given * weight
    dx = _before_normalized(g, normalized, inverse, lambda each: each.mean(list(range(outer, x.ndim)), keepdim=True))
    sums = [each.sum(list(range(outer))) if outer else each for each in (given * normalized, given)]
    return _wanted(dx.to(x.dtype), sums, weight, wanted)


def _before_normalized(g: Tensor, normalized: Tensor, inverse: Tensor, average: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient of what is normalized from that of the result, g."""
    return (g - average(g) - normalized * average(g * normalized)) * inverse


def _wanted(
    dx: Tensor, sums: Sequence[Tensor], weight: Tensor | None, wanted: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the `wanted` ones of dx and of the sums, the gradients of weight and bias, which have their type."""
    found = (dx, *(each if weight is None else each.to(weight.dtype) for each in sums))
    return tuple(each if is_wanted else None for each, is_wanted in zip(found, wanted, strict=True))


def has_symbolic_planes(x: Tensor) -> bool:
    """Whether x has symbolic sizes behind batch and channels."""
    return not all(isinstance(size, int) for size in x.shape[2:])


def _average(x: Tensor, groups: int) -> Tensor:
    """Return the averages over groups of channels, (batch, groups)."""
    of_channels = x.mean(list(range(2, x.ndim)))
    return of_channels.reshape(-1, groups, x.shape[1] // groups).mean(2)


def _of_channels(values: Tensor, x: Tensor) -> Tensor:
    """Return values of groups, (batch, groups), for each channel of x: (batch, channels, 1, …)."""
    repeated = values[:, :, None] * torch.ones(x.shape[1] // values.shape[1], dtype=values.dtype)
    return repeated.reshape(-1, x.shape[1], *[1] * (x.ndim - 2))


def _normalized(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x with mean 0 and variance 1 over the axes, the mean, and 1/√(variance + eps), which keep the axes."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)
    return centred * inverse, mean, inverse


def wide_type(x: Tensor) -> torch.dtype:
    """Return float32, or the element type of x if that is wider."""
    return torch.promote_types(x.dtype, torch.float32)


def _update(running: Tensor | None, found: Tensor, momentum: float, correction: float = 1) -> None:
    if running is not None:
        running.copy_(momentum * correction * found + (1 - momentum) * running)


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
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
    aten.native_layer_norm.default: layer_norm,
    aten.native_layer_norm_backward.default: layer_norm_backward,
}
