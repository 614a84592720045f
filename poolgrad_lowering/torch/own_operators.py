# SPDX-License-Identifier: Apache-2.0

"""Operators for what torch would take apart on the way to ONNX, each with the node that it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript.onnx_opset import opset18
from torch import Tensor


@torch.library.custom_op("poolgrad_lowering::product", mutates_args=())
def product(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product over the last two axes. One factor may have no others: torch would expand it."""
    return left @ right


@product.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    outer = max(left.shape[:-2], right.shape[:-2], key=len)
    return left.new_empty([*outer, left.shape[-2], right.shape[-1]])


@torch.library.custom_op("poolgrad_lowering::repeat", mutates_args=())
def repeat(x: Tensor, factors: list[int]) -> Tensor:
    """Return x with every element repeated along the axes behind batch and channels, each as often as its factor."""
    for axis, factor in enumerate(factors, start=2):
        x = x.repeat_interleave(factor, axis)
    return x


@repeat.register_fake
def _(x: Tensor, factors: list[int]) -> Tensor:
    sizes = [size * factor for size, factor in zip(x.shape[2:], factors, strict=True)]
    return x.new_empty([*x.shape[:2], *sizes])


@torch.library.custom_op("poolgrad_lowering::part", mutates_args=())
def part(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: list[int]) -> Tensor:
    """Return so many elements along consecutive axes from `starts` on, every `steps`: one slice for all axes."""
    slices = (slice(*bounds) for bounds in zip(starts, _ends(starts, counts, steps), steps, strict=True))
    return x[(slice(None),) * first_axis + tuple(slices)].clone()


@part.register_fake
def _(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: list[int]) -> Tensor:  # noqa: ARG001
    return x.new_empty([*x.shape[:first_axis], *counts, *x.shape[first_axis + len(counts) :]])


@torch.library.custom_op("poolgrad_lowering::turn_round", mutates_args=())
def turn_round(weight: Tensor) -> Tensor:
    """Return a weight with its elements in the opposite order along all axes of the kernel. ONNX has no flip."""
    return weight.flip(list(range(2, weight.ndim)))


@turn_round.register_fake
def _(weight: Tensor) -> Tensor:
    return weight.new_empty(weight.shape)


def _ends(starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> list[int]:
    return [start + (count - 1) * step + 1 for start, count, step in zip(starts, counts, steps, strict=True)]


def _repeat(x: Any, factors: Sequence[int]) -> Any:
    scales = opset18.Constant(value_floats=[1.0, 1.0, *map(float, factors)])
    way = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return opset18.Resize(x, None, scales, **way)


def _part(x: Any, first_axis: int, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Any:
    numbers = [starts, _ends(starts, counts, steps), range(first_axis, first_axis + len(starts))]
    operands = [*numbers, steps] if max(steps) > 1 else numbers
    return opset18.Slice(x, *(opset18.Constant(value_ints=list(operand)) for operand in operands))


def _turn_round(weight: Any) -> Any:
    axes = len(weight.shape) - 2
    operands = ([-1] * axes, [-size - 1 for size in weight.shape[2:]], range(2, 2 + axes), [-1] * axes)
    return opset18.Slice(weight, *(opset18.Constant(value_ints=list(operand)) for operand in operands))


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.poolgrad_lowering.product.default: lambda left, right: opset18.MatMul(left, right),
    torch.ops.poolgrad_lowering.repeat.default: _repeat,
    torch.ops.poolgrad_lowering.part.default: _part,
    torch.ops.poolgrad_lowering.turn_round.default: _turn_round,
}
"""The functions that write the nodes."""
