# SPDX-License-Identifier: Apache-2.0

"""Convolutions, and their gradients as operators of our own, for any stride, padding, dilation and number of groups.

A transposed convolution is the same sum with input and output exchanged, so the same operators serve both.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.model.convolution_gradients import LARGEST_PADDING, WeightGradient
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch.internals.symbols import is_transformed
from poolgrad_lowering.torch.internals.tracing import below_autograd
from poolgrad_lowering.torch.own_gradients import input_gradient, weight_gradient

aten = torch.ops.aten


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Return a convolution with more padding than Ascend documents by a Pad, or without what it pads.

    So is a transposed convolution whose output_padding is a stride or more, which onnxruntime does not take: it is the
    one without padding, which has elements cut off, and zeros added. A convolution with one padding for all axes gets
    it for each of them. Others are `NotImplemented`.
    """
    if len(padding) < weight.ndim - 2:
        each = _of_each_axis(padding, weight)
        return aten.convolution(x, weight, bias, stride, each, dilation, transposed, output_padding, groups)
    is_large = max(padding, default=0) > LARGEST_PADDING
    none = [0] * len(padding)
    if is_large and not transposed:
        padded = aten.constant_pad_nd(x, [pad for each in reversed(padding) for pad in (each, each)], 0)
        return aten.convolution(padded, weight, bias, stride, none, dilation, False, none, groups)
    if not (transposed and (is_large or _has_room(output_padding, stride))):
        return NotImplemented
    whole = aten.convolution(x, weight, None, stride, none, dilation, True, none, groups)
    ends = zip(reversed(padding), reversed(output_padding), strict=True)
    found = functional.pad(whole, [amount for pad, more in ends for amount in (-pad, more - pad)])
    return found if bias is None else found + bias.reshape(-1, *[1] * len(padding))


def _of_each_axis(padding: Sequence[int], weight: Tensor) -> list[int]:
    """Return the padding of each axis: torch writes `padding="valid"` as one number for all."""
    return [*padding] * (weight.ndim - 2) if len(padding) == 1 else [*padding]


def _has_room(output_padding: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether the image of a transposed convolution has room for more windows than x has elements."""
    return any(map(operator.ge, output_padding, stride))


def convolution_backward(
    way: WeightGradient,
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,  # noqa: ARG001 - the operator's signature
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return what aten.convolution_backward returns, with the weight's gradient written in this way."""
    each = _of_each_axis(padding, weight)
    windows = list(map(AxisWindow, weight.shape[2:], stride, each, each, dilation))
    image, outputs = (dy, x) if transposed else (x, dy)
    dx = dw = None
    if output_mask[1]:
        dw = weight_gradient(image, outputs, way, windows, groups)
    if output_mask[0] and transposed:
        dx = aten.convolution(dy, weight, None, stride, each, dilation, False, [0] * len(each), groups)
        is_longer = _has_room(output_padding, stride) and all(isinstance(count, int) for count in x.shape[2:])
        for axis in range(2, dx.ndim) if is_longer else ():
            dx = aten.slice(dx, axis, 0, x.shape[axis])
    elif output_mask[0]:
        dx = input_gradient(dy, weight, x, windows, groups)
    return dx, dw, dy.sum([0, *range(2, dy.ndim)]) if output_mask[2] else None


class _Backward(torch.autograd.Function):
    """aten.convolution_backward, of which each result is linear in two of dy, x and weight: so are its gradients."""

    @staticmethod
    def forward(ctx: Any, *operands: Any) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(*operands[:3])
        ctx.others = operands[3:-1]
        ctx.set_materialize_grads(False)
        with below_autograd():
            found: tuple[Tensor | None, ...] = aten.convolution_backward(*operands)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (dy, x, weight), (of_dx, of_dw, of_bias) = ctx.saved_tensors, gradients
        bias_sizes, *windows = ctx.others
        of_x = of_weight = None
        of_dy = [] if of_bias is None else [of_bias.reshape(-1, *[1] * (dy.ndim - 2)).expand(dy.shape)]
        if of_dx is not None:
            of_dy.append(aten.convolution(of_dx, weight, None, *windows))
            of_weight = _Backward.apply(dy, of_dx, weight, bias_sizes, *windows, [False, True, False])[1]
        if of_dw is not None:
            of_dy.append(aten.convolution(x, of_dw, None, *windows))
            of_x = _Backward.apply(dy, x, of_dw, bias_sizes, *windows, [True, False, False])[0]
        return reduce(operator.add, of_dy), of_x, of_weight, *[None] * (len(ctx.others) + 1)


def differentiable_convolution_backward(*operands: Any) -> Any:
    """Return what aten.convolution_backward returns, with gradients of its own.

    Within a transform of torch.func, which takes no such function, it is `NotImplemented`.
    """
    return NotImplemented if is_transformed() else _Backward.apply(*operands)
