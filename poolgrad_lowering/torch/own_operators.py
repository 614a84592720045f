# SPDX-License-Identifier: Apache-2.0

"""Operators for what torch would take apart on the way to ONNX, each with the node that it is there.

One of torch's own has no translation: `view_of`, which its decompositions make of an operator that changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from typing import Any

import numpy as np
import torch
from onnxscript.onnx_opset import opset18
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.model import weight_gradients
from poolgrad_lowering.model.convolution_gradients import Spelling
from poolgrad_lowering.model.weight_gradients import Convolution
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch.written import written


def _operator(schema: str, compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> Any:
    """Register an operator with torch. `shape` returns a tensor of the shape of the result."""
    name, _, operands = schema.partition("(")
    operator = torch.library.custom_op(f"poolgrad_lowering::{name}", compute, mutates_args=(), schema=f"({operands}")
    operator.register_fake(shape)
    return operator


product = _operator(
    "product(Tensor left, Tensor right) -> Tensor",
    torch.matmul,
    lambda left, right: left.new_empty(
        [*max(left.shape[:-2], right.shape[:-2], key=len), left.shape[-2], right.shape[-1]]
    ),
)
"""The matrix product over the last two axes. One factor may have no others: torch would expand it."""


def _note_factors(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001 - torch's names
    ctx.save_for_backward(*inputs)


def _gradients_of_product(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of both factors, for a gradient of the gradient of an interpolation."""
    left, right = context.saved_tensors
    of_left, of_right = gradient @ right.mT, left.mT @ gradient
    return of_left.sum_to_size(left.shape), of_right.sum_to_size(right.shape)


product.register_autograd(_gradients_of_product, setup_context=_note_factors)


def _repeated(x: Tensor, factors: list[int]) -> Tensor:
    for axis, factor in enumerate(factors, start=2):
        x = x.repeat_interleave(factor, axis)
    return x


repeat = _operator(
    "repeat(Tensor x, int[] factors) -> Tensor",
    _repeated,
    lambda x, factors: x.new_empty([*x.shape[:2], *map(mul, x.shape[2:], factors)]),
)
"""x with every element repeated along the axes behind batch and channels, each as often as its factor."""


def _sliced(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: list[int]) -> Tensor:
    slices = (slice(*bounds) for bounds in zip(starts, _ends(starts, counts, steps), steps, strict=True))
    return x[(slice(None),) * first_axis + tuple(slices)].clone()


def _ends(starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> list[int]:
    return [start + (count - 1) * step + 1 for start, count, step in zip(starts, counts, steps, strict=True)]


part = _operator(
    "part(Tensor x, int first_axis, int[] starts, int[] counts, int[] steps) -> Tensor",
    _sliced,
    lambda x, axis, starts, counts, _: x.new_empty([*x.shape[:axis], *counts, *x.shape[axis + len(starts) :]]),
)
"""So many elements along consecutive axes from `starts` on, every `steps`: one slice for all axes."""

turn_round = _operator(
    "turn_round(Tensor weight) -> Tensor", lambda weight: weight.flip(list(range(2, weight.ndim))), torch.empty_like
)
"""A weight with its elements in the opposite order along all axes of the kernel. ONNX has no flip."""

to_space = _operator(
    "to_space(Tensor x, int factor) -> Tensor",
    functional.pixel_shuffle,
    lambda x, factor: x.new_empty([x.shape[0], x.shape[1] // factor**2, *(size * factor for size in x.shape[2:])]),
)
"""A pixel shuffle of images of any height and width, of which a Reshape would have more than one size to compute."""

to_depth = _operator(
    "to_depth(Tensor x, int factor) -> Tensor",
    functional.pixel_unshuffle,
    lambda x, factor: x.new_empty([x.shape[0], x.shape[1] * factor**2, *(size // factor for size in x.shape[2:])]),
)
"""The reverse of `to_space`, its gradient."""

zeros_along = _operator(
    "zeros_along(Tensor x, int axis) -> Tensor",
    lambda x, axis: x.new_zeros(x.shape[axis], dtype=torch.int64),
    lambda x, axis: x.new_empty(x.shape[axis], dtype=torch.int64),
)
"""As many zeros, int64, as x has elements along an axis, computed of them: CANN's graph engine computes no sizes."""


def _weight_gradient_computed(
    image: Tensor,
    outputs: Tensor,
    _: str,
    kernel: list[int],
    strides: list[int],
    padding: list[int],
    dilations: list[int],
    groups: int,
    __: list[int],
) -> Tensor:
    axes = len(kernel)
    padded = functional.pad(image, [pad for each in reversed(padding) for pad in (each, each)])
    reach = zip(outputs.shape[2:], strides, kernel, dilations, strict=True)
    needed = padded[(..., *(slice((count - 1) * step + (taps - 1) * apart + 1) for count, step, taps, apart in reach))]
    weight, none = image.new_empty([outputs.shape[1], image.shape[1] // groups, *kernel]), [0] * axes
    operands = (outputs, needed, weight, None, strides, none, dilations, False, none, groups)
    return torch.ops.aten.convolution_backward(*operands, [False, True, False])[1]


weight_gradient = _operator(
    "weight_gradient(Tensor image, Tensor outputs, str way, int[] kernel, int[] strides, int[] padding, "
    "int[] dilations, int groups, int[] behind) -> Tensor",
    _weight_gradient_computed,
    lambda image, outputs, _, kernel, *windows: image.new_empty(
        [outputs.shape[1], image.shape[1] // windows[-2], *kernel]
    ),
)
"""The gradient of a convolution's weight, in a way of `Spelling`. `behind` are those of `Convolution`, −1 for None."""


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


def _to_depth_written(x: Any, factor: int) -> Any:
    """ONNX has the places of a block before the channels, and torch behind them."""
    channels = np.arange(x.shape[1] * factor**2).reshape(factor**2, -1).T.flatten().tolist()
    return opset18.Gather(opset18.SpaceToDepth(x, blocksize=factor), opset18.Constant(value_ints=channels), axis=1)


def _zeros_along_written(x: Any, axis: int) -> Any:
    rank = len(x.shape)
    return written(lambda body: body.zeros_along(axis % rank, rank), x)


def _weight_gradient_written(
    image: Any,
    outputs: Any,
    way: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    behind: Sequence[int],
) -> Any:
    windows = list(map(AxisWindow, kernel, strides, padding, padding, dilations))
    planes = [list(value.shape[2:]) for value in (image, outputs)]
    if not all(isinstance(size, int) for size in itertools.chain(*planes)):
        planes = [None, None]
    known = [None if number < 0 else number for number in behind]
    of = Convolution(image.shape[1], outputs.shape[1], groups, windows, *planes, known)
    return written(partial(weight_gradients.weight_gradient, Spelling[way], of), image, outputs)


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.poolgrad_lowering.product.default: lambda left, right: opset18.MatMul(left, right),  # noqa: PLW0108 - as below
    torch.ops.poolgrad_lowering.repeat.default: _repeat_written,
    torch.ops.poolgrad_lowering.part.default: _part_written,
    torch.ops.poolgrad_lowering.turn_round.default: _turn_round_written,
    torch.ops.poolgrad_lowering.to_space.default: lambda x, factor: opset18.DepthToSpace(
        x, blocksize=factor, mode="CRD"
    ),
    torch.ops.poolgrad_lowering.to_depth.default: _to_depth_written,
    torch.ops.poolgrad_lowering.zeros_along.default: _zeros_along_written,
    torch.ops.poolgrad_lowering.weight_gradient.default: _weight_gradient_written,
    torch.ops.prims.view_of.default: lambda x: opset18.Identity(x),  # noqa: PLW0108 - torch reads its signature
}
"""The functions that write the nodes."""
