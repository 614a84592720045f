# SPDX-License-Identifier: Apache-2.0

"""Operators for what torch would take apart on the way to ONNX, each with the node that it is there.

One of torch's own has no translation: `view_of`, which its decompositions make of an operator that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

import numpy as np
import torch
from onnxscript.onnx_opset import opset18
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.torch.written import written


def operator(schema: str, compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> Any:
    """Register an operator with torch. `shape` returns a tensor of the shape of the result."""
    name, _, operands = schema.partition("(")
    found = torch.library.custom_op(f"poolgrad_lowering::{name}", compute, mutates_args=(), schema=f"({operands}")
    found.register_fake(shape)
    return found


product = operator(
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


repeat = operator(
    "repeat(Tensor x, int[] factors) -> Tensor",
    _repeated,
    lambda x, factors: x.new_empty([*x.shape[:2], *map(mul, x.shape[2:], factors)]),
)
"""x with every element repeated along the axes behind batch and channels, each as often as its factor."""


to_space = operator(
    "to_space(Tensor x, int factor) -> Tensor",
    functional.pixel_shuffle,
    lambda x, factor: x.new_empty([x.shape[0], x.shape[1] // factor**2, *(size * factor for size in x.shape[2:])]),
)
"""A pixel shuffle of images of any height and width, of which a Reshape would have more than one size to compute."""

to_depth = operator(
    "to_depth(Tensor x, int factor) -> Tensor",
    functional.pixel_unshuffle,
    lambda x, factor: x.new_empty([x.shape[0], x.shape[1] * factor**2, *(size // factor for size in x.shape[2:])]),
)
"""The reverse of `to_space`, its gradient."""

zeros_along = operator(
    "zeros_along(Tensor x, int axis) -> Tensor",
    lambda x, axis: x.new_zeros(x.shape[axis], dtype=torch.int64),
    lambda x, axis: x.new_empty(x.shape[axis], dtype=torch.int64),
)
"""As many zeros, int64, as x has elements along an axis, computed of them: CANN's graph engine computes no sizes."""

in_rows = operator(
    "in_rows(Tensor x, SymInt rows, SymInt columns) -> Tensor",
    lambda x, rows, columns: x.reshape(rows, columns, *x.shape[1:]).clone(),
    lambda x, rows, columns: x.new_empty([rows, x.shape[0] // rows if columns == -1 else columns, *x.shape[1:]]),
)
"""x with its first axis parted to rows of equal length: of two sizes that are not known, a Reshape computes one.

The number of columns is −1 where the graph does not say it.
"""


def _repeat_written(x: Any, factors: Sequence[int]) -> Any:
    scales = opset18.Constant(value_floats=[1.0, 1.0, *map(float, factors)])
    way = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return opset18.Resize(x, None, scales, **way)


def _to_depth_written(x: Any, factor: int) -> Any:
    """ONNX has the places of a block before the channels, and torch behind them."""
    channels = np.arange(x.shape[1] * factor**2).reshape(factor**2, -1).T.flatten().tolist()
    return opset18.Gather(opset18.SpaceToDepth(x, blocksize=factor), opset18.Constant(value_ints=channels), axis=1)


def _zeros_along_written(x: Any, axis: int) -> Any:
    rank = len(x.shape)
    return written(lambda body: body.zeros_along(axis % rank, rank), x)


def _in_rows_written(x: Any, rows: Any, columns: Any) -> Any:
    none, one = opset18.Constant(value_int=0), opset18.Constant(value_int=1)
    columns = opset18.Div(opset18.Gather(opset18.Shape(x), none), rows)
    first = opset18.Mul(opset18.Range(none, rows, one), columns)
    positions = opset18.Unsqueeze(first, opset18.Constant(value_ints=[1]))
    return opset18.Gather(x, opset18.Add(positions, opset18.Range(none, columns, one)))


OPERATORS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.poolgrad_lowering.product.default: lambda left, right: opset18.MatMul(left, right),  # noqa: PLW0108 - as below
    torch.ops.poolgrad_lowering.in_rows.default: _in_rows_written,
    torch.ops.poolgrad_lowering.repeat.default: _repeat_written,
    torch.ops.poolgrad_lowering.to_space.default: lambda x, factor: opset18.DepthToSpace(
        x, blocksize=factor, mode="CRD"
    ),
    torch.ops.poolgrad_lowering.to_depth.default: _to_depth_written,
    torch.ops.poolgrad_lowering.zeros_along.default: _zeros_along_written,
    torch.ops.prims.view_of.default: lambda x: opset18.Identity(x),  # noqa: PLW0108 - torch reads its signature
}
"""The functions that write the nodes."""
