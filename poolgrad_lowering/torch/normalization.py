# SPDX-License-Identifier: Apache-2.0

"""Batch normalization in operators that torch's ONNX exporter can translate, with new running statistics."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_norm(  # noqa: PLR0917 - the operator's signature
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
    wide = torch.promote_types(x.dtype, torch.float32)
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


def _update(running: Tensor | None, found: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(momentum * found + (1 - momentum) * running)
