# SPDX-License-Identifier: Apache-2.0

"""Fake quantization: numbers that are rounded to multiples of a scale, and the observers that choose the scales.

The operators of torch compute in float32 alone; in float64, steps of eager PyTorch are computed by these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.operators.normalization import wide_type

aten = torch.ops.aten

_LEAST_SCALE = 6.1e-5
"""Smaller scales are replaced by it (fbgemm's ChooseQuantizationParams)."""


def fake_quantized(x: Tensor, scale: float, zero: int, lowest: int, highest: int) -> tuple[Tensor, Tensor]:
    """Return x as a multiple of a scale, numbered from `lowest` to `highest` with 0 at `zero`, and where it is inside.

    The gradient is that of x where it is inside.
    """
    return _multiples(x, torch.full((), scale, dtype=wide_type(x)), zero, lowest, highest)


def fake_quantized_by_channel(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, lowest: int, highest: int
) -> tuple[Tensor, Tensor]:
    """Return the same with a scale and a zero for each part along an axis. `NotImplemented` if a zero is no integer."""
    if zero.is_floating_point():
        return NotImplemented
    shape = [-1 if at == axis else 1 for at in range(x.ndim)]
    return _multiples(x, scale.reshape(shape), zero.to(wide_type(x)).reshape(shape), lowest, highest)


def _multiples(x: Tensor, scale: Tensor, zero: Tensor | int, lowest: int, highest: int) -> tuple[Tensor, Tensor]:
    number = (x.to(wide_type(x)) * scale.reciprocal()).round() + zero
    rounded = (number.clamp(lowest, highest) - zero) * scale
    return rounded.to(x.dtype), (number >= lowest) & (number <= highest)


def observed(
    x: Tensor,
    is_observing: Tensor,
    is_quantizing: Tensor,
    low: Tensor,
    high: Tensor,
    scale: Tensor,
    zero: Tensor,
    share: float,
    lowest: int,
    highest: int,
    axis: int,
    by_channel: bool = False,
    symmetric: bool = False,
) -> tuple[Tensor, ...]:
    """Return x quantized, where it is inside, and the new range, scale and zero: those of moving averages.

    Raises `TorchExportError` for an observer of channels that has seen none, whose tensors have no elements.
    """
    if not low.numel():
        raise TorchExportError("an observer of a quantization has seen nothing: run the model once before the export")
    wide = x.to(wide_type(x))
    axes = [at for at in range(x.ndim) if at != axis or not by_channel]
    ends = wide.amin(axes).reshape(low.shape), wide.amax(axes).reshape(low.shape)
    is_on = (is_observing == 1).reshape(())
    low, high = (
        torch.where(is_on, torch.where(old.isinf(), end, old + share * (end - old)), old)
        for old, end in zip((low, high), ends, strict=True)
    )
    is_on = (is_quantizing == 1).reshape(())
    found, first = _scale_and_zero(low, high, lowest, highest, symmetric=symmetric)
    scale = torch.where(is_on, found.reshape(scale.shape).to(scale.dtype), scale)
    zero = torch.where(is_on, first.reshape(zero.shape).to(zero.dtype), zero)
    result, is_inside = fake_quantized_by_channel(x, scale, zero, axis if by_channel else x.ndim, lowest, highest)
    return torch.where(is_on, result, x), is_inside | ~is_on, low, high, scale, zero


def _scale_and_zero(low: Tensor, high: Tensor, lowest: int, highest: int, *, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the scale of a range with 0 in it, and the number of 0, as fbgemm's ChooseQuantizationParams does."""
    least, most = low.clamp(max=0), high.clamp(min=0)
    is_around = (least < 0) & (most > 0)
    half = (highest - lowest) // 2
    if symmetric:
        size = torch.maximum(-least / (half + 1), most / half)
        least, most = (torch.where(is_around, size * by, end) for by, end in ((-half - 1, least), (half, most)))
    scale = (most - least) / (highest - lowest)
    scale = torch.where(scale == 0, 0.1, scale)
    small = scale < _LEAST_SCALE
    factor = torch.where(small, _LEAST_SCALE / scale, 1)
    scale, least, most = torch.where(small, _LEAST_SCALE, scale), least * factor, most * factor
    from_least, from_most = lowest - least / scale, highest - most / scale
    is_first = abs(lowest) + (least / scale).abs() < abs(highest) + (most / scale).abs()
    zero = torch.where(is_first, from_least, from_most)
    if symmetric:
        zero = torch.where(is_around, (lowest + highest) / 2, zero)
    return scale, zero.round().clamp(lowest, highest)


def _observed_in_place(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    result, is_inside, *new = observed(x, *arguments)
    for old, value in zip(arguments[2:6], new, strict=True):
        old.copy_(value)
    return result, is_inside


QUANTIZATIONS: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantized,
    aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantized_by_channel,
    aten._fused_moving_avg_obs_fq_helper_functional.default: observed,  # noqa: SLF001 - the names of operators
    aten._fused_moving_avg_obs_fq_helper.default: _observed_in_place,  # noqa: SLF001
}
