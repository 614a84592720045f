# SPDX-License-Identifier: Apache-2.0

"""The gradients of a convolution in operators that torch's ONNX exporter can translate.

A convolution of any stride s, padding p, dilation d and number of groups, over any number of axes (here one):

    y[n, o, l] = Σ_c Σ_k w[o, c, k] · x[n, c, l·s + k·d − p]

A transposed convolution is the same sum with x and y exchanged, so the gradients below serve both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from poolgrad_lowering.model.windows import AxisWindow

WeightGradient = Literal["matmul", "convolution"]
"""How the gradient of a convolution's weight is written.

"matmul": a matrix product for each position in the kernel, or one over all positions where channels are few. The
fastest on onnxruntime's CPU provider. "convolution": one convolution of x and dy with batch and channels exchanged,
whose kernel is as large as the image.
"""

FEW_CHANNELS = 16
"""With fewer channels in a group, one product over all positions of the kernel is faster than one for each."""

aten = torch.ops.aten


class _Windows(NamedTuple):
    """The windows of a convolution: the sizes of the kernel, stride, padding and dilation by axis, and the groups."""

    kernel: tuple[int, ...]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def convolution_backward(weight_gradient: WeightGradient) -> Callable[..., tuple[Tensor | None, ...]]:
    """Return the function that computes aten.convolution_backward, with the weight's gradient written in this way."""
    write = {"matmul": _by_products, "convolution": _by_convolution}[weight_gradient]

    def backward(  # noqa: PLR0917 - the operator's signature
        dy: Tensor,
        x: Tensor,
        weight: Tensor,
        bias_sizes: Sequence[int] | None,  # noqa: ARG001 - the operator's signature
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],  # noqa: ARG001 - the sizes of dy say the same
        groups: int,
        output_mask: Sequence[bool],
    ) -> tuple[Tensor | None, ...]:
        windows = _Windows(tuple(weight.shape[2:]), stride, padding, dilation, groups)
        image, outputs = (dy, x) if transposed else (x, dy)
        return (
            _input_gradient(dy, x, weight, windows, transposed=transposed) if output_mask[0] else None,
            write(image, outputs, windows) if output_mask[1] else None,
            dy.sum([0, *range(2, dy.ndim)]) if output_mask[2] else None,
        )

    return backward


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor, windows: _Windows, *, transposed: bool) -> Tensor:
    """Return dx: the convolution of dy in the other direction, with as many rows as the forward pass rounded off."""
    kernel, stride, padding, dilation, groups = windows
    output_padding = [0] * len(kernel)
    if not transposed:
        axes = map(AxisWindow, kernel, stride, padding, padding, dilation)
        sizes = zip(axes, x.shape[2:], dy.shape[2:], strict=True)
        output_padding = [window.end - window.overhang(size, count) for window, size, count in sizes]
    dx: Tensor = aten.convolution(dy, weight, None, stride, padding, dilation, not transposed, output_padding, groups)
    return dx


def _by_products(image: Tensor, outputs: Tensor, windows: _Windows) -> Tensor:
    """Return the weight's gradient as matrix products. `image` is what the windows move over."""
    if windows.groups > 1 or image.shape[1] < FEW_CHANNELS:
        return _by_one_product(image, outputs, windows)
    return _by_product_per_position(image, outputs, windows)


def _by_product_per_position(image: Tensor, outputs: Tensor, windows: _Windows) -> Tensor:
    """Return dw of one group: for each position in the kernel, dy as (O, N·L) by the elements of x there, (N·L, C)."""
    channels = image.shape[1]
    rows = outputs.transpose(0, 1).reshape(outputs.shape[1], -1)
    last = image.permute(0, *range(2, image.ndim), 1)
    products = [rows @ part.reshape(-1, channels) for part in _positions(last, outputs, windows, first_axis=1)]
    stacked = torch.cat(products).reshape(*windows.kernel, outputs.shape[1], channels)
    axes = len(windows.kernel)
    return stacked.permute(axes, axes + 1, *range(axes))


def _by_one_product(image: Tensor, outputs: Tensor, windows: _Windows) -> Tensor:
    """Return dw of any groups: dy as (N, G, O, L) by the columns of x, (N, G, L, K·C), added up over N."""
    groups, channels = windows.groups, image.shape[1] // windows.groups
    # Not -1 for the batch, which may be symbolic, nor for L, which may be empty.
    parts = [
        part.reshape(-1, groups, channels, part[0, 0].numel())
        for part in _positions(image, outputs, windows, first_axis=2)
    ]
    columns = torch.cat(parts, 2).transpose(2, 3)
    rows = outputs.reshape(-1, groups, outputs.shape[1] // groups, outputs[0, 0].numel())
    product = (rows @ columns).sum(0)
    return product.reshape(outputs.shape[1], -1, channels).transpose(1, 2).reshape(-1, channels, *windows.kernel)


def _positions(image: Tensor, outputs: Tensor, windows: _Windows, *, first_axis: int) -> Iterator[Tensor]:
    """Yield the elements of the padded image that each position in the kernel meets, one slice for each axis.

    The axes of the windows begin at `first_axis`, in `outputs` at 2.
    """
    after = image.ndim - first_axis - len(windows.kernel)
    pads = [pad for padding in reversed(windows.padding) for pad in (padding, padding)]
    parts = [aten.constant_pad_nd(image, [0, 0] * after + pads, 0) if any(pads) else image]
    axes = zip(outputs.shape[2:], windows.kernel, windows.stride, windows.dilation, strict=True)
    for axis, (count, kernel, stride, dilation) in enumerate(axes, start=first_axis):
        reach = (count - 1) * stride + 1
        starts = [position * dilation for position in range(kernel)]
        parts = [aten.slice(part, axis, start, start + reach, stride) for part in parts for start in starts]
    yield from parts


def _by_convolution(image: Tensor, outputs: Tensor, windows: _Windows) -> Tensor:
    """Return the weight's gradient as one convolution, with batch and channels, and stride and dilation, exchanged."""
    sizes, groups, channels = image.shape[2:], windows.groups, image.shape[1] // windows.groups
    axes = range(3, 3 + len(sizes))
    exchanged = image.reshape(-1, groups, channels, *sizes).permute(2, 1, 0, *axes).reshape(channels, -1, *sizes)
    none = [0] * len(sizes)
    result: Any = aten.convolution(
        exchanged, outputs.transpose(0, 1), None, windows.dilation, windows.padding, windows.stride, False, none, groups
    )
    for axis, kernel in enumerate(windows.kernel):
        result = aten.slice(result, 2 + axis, 0, kernel)
    gradient: Tensor = result.transpose(0, 1)
    return gradient
