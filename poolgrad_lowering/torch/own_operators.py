# SPDX-License-Identifier: Apache-2.0

"""Operators for what torch would take apart on the way to ONNX, each with the node that it is there.

One of torch's own has no translation: `view_of`, which its decompositions make of an operator that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript.onnx_opset import opset18
from torch import Tensor


def _operator(name: str, compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Register an operator with torch. `shape` returns a tensor of the shape of the result."""
    operator = torch.library.custom_op(f"poolgrad_lowering::{name}", compute, mutates_args=())
    operator.register_fake(shape)
    return operator


def _product_computed(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product over the last two axes. One factor may have no others: torch would expand it."""
    return left @ right


def _product_shaped(left: Tensor, right: Tensor) -> Tensor:
    outer = max(left.shape[:-2], right.shape[:-2], key=len)
    return left.new_empty([*outer, left.shape[-2], right.shape[-1]])


def _repeat_computed(x: Tensor, factors: list[int]) -> Tensor:
    """Return x with every element repeated along the axes behind batch and channels, each as often as its factor."""
    for axis, factor in enumerate(factors, start=2):
        x = x.repeat_interleave(factor, axis)
    return x


def _repeat_shaped(x: Tensor, factors: list[int]) -> Tensor:
    sizes = [size * factor for size, factor in zip(x.shape[2:], factors, strict=True)]
    return x.new_empty([*x.shape[:2], *sizes])


def _part_computed(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: list[int]) -> Tensor:
    """Return so many elements along consecutive axes from `starts` on, every `steps`: one slice for all axes."""
    slices = (slice(*bounds) for bounds in zip(starts, _ends(starts, counts, steps), steps, strict=True))
    return x[(slice(None),) * first_axis + tuple(slices)].clone()


def _part_shaped(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: list[int]) -> Tensor:  # noqa: ARG001
    return x.new_empty([*x.shape[:first_axis], *counts, *x.shape[first_axis + len(counts) :]])


def _turn_round_computed(weight: Tensor) -> Tensor:
    """Return a weight with its elements in the opposite order along all axes of the kernel. ONNX has no flip."""
    return weight.flip(list(range(2, weight.ndim)))


def _turn_round_shaped(weight: Tensor) -> Tensor:
    return weight.new_empty(weight.shape)


product = _operator("product", _product_computed, _product_shaped)
repeat = _operator("repeat", _repeat_computed, _repeat_shaped)
part = _operator("part", _part_computed, _part_shaped)
turn_round = _operator("turn_round", _turn_round_computed, _turn_round_shaped)


def _ends(starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> list[int]:
    return [start + (count - 1) * step + 1 for start, count, step in zip(starts, counts, steps, strict=True)]


def _product_written(left: Any, right: Any) -> Any:
    return opset18.MatMul(left, right)


def _repeat_written(x: Any, factors: Sequence[int]) -> Any:
    scales = opset18.Constant(value_floats=[1.0, 1.0, *map(float, factors)])
    way = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return opset18.Resize(x, None, scales, **way)


def _part_written(x: Any, first_axis: int, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Any:
    numbers = [starts, _ends(starts, counts, steps), range(first_axis, first_axis + len(starts))]
    operands = [*numbers, steps] if max(steps) > 1 else numbers
    return opset18.Slice(x, *(opset18.Constant(value_ints=list(operand)) for operand in operands))


def _turn_round_written(weight: Any) -> Any:
    axes = len(weight.shape) - 2
    operands = ([-1] * axes, [-size - 1 for size in weight.shape[2:]], range(2, 2 + axes), [-1] * axes)
    return opset18.Slice(weight, *(opset18.Constant(value_ints=list(operand)) for operand in operands))


def _identity_written(x: Any) -> Any:
    return opset18.Identity(x)


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.poolgrad_lowering.product.default: _product_written,
    torch.ops.poolgrad_lowering.repeat.default: _repeat_written,
    torch.ops.poolgrad_lowering.part.default: _part_written,
    torch.ops.poolgrad_lowering.turn_round.default: _turn_round_written,
    torch.ops.prims.view_of.default: _identity_written,
}
"""The functions that write the nodes."""
