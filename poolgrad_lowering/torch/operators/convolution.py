# SPDX-License-Identifier: Apache-2.0

"""The gradients of a convolution in operators that torch's ONNX exporter can translate.

A convolution of any stride s, padding p, dilation d and number of groups, over any number of axes (here one):

    y[n, o, l] = Σ_c Σ_k w[o, c, k] · x[n, c, l·s + k·d − p]

A transposed convolution is the same sum with x and y exchanged, so the gradients below serve both.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.model.convolution_gradients import Spelling, is_turned_round, spelling
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch.internals.tracing import is_number
from poolgrad_lowering.torch.own_operators import part, turn_round
from poolgrad_lowering.torch.symbolic.sizes_of_tensors import positions_along

WeightGradient = Literal["by_shape", "matmul", "convolution"]
"""How the gradient of a convolution's weight is written.

"by_shape": the fastest way on onnxruntime's CPU provider for the sizes of the layer (`model.convolution_gradients`).
"convolution": one convolution of x and dy with batch and channels exchanged, whose kernel is as large as the image.
"matmul": the fastest way that is no convolution.
"""

aten = torch.ops.aten

_LARGEST_PADDING = 255
"""The largest padding of a convolution that Ascend documents."""

_VOLUME = 3
"""The axes of a convolution over a volume."""


class Windows(NamedTuple):
    """The windows of a convolution: the sizes of the kernel, stride, padding and dilation by axis, and the groups."""

    kernel: tuple[int, ...]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int

    @property
    def axes(self) -> list[AxisWindow]:
        """The windows of each axis."""
        return list(map(AxisWindow, self.kernel, self.stride, self.padding, self.padding, self.dilation))


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
    is_large = max(padding, default=0) > _LARGEST_PADDING
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
    weight_gradient: WeightGradient,
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
    windows = Windows(tuple(weight.shape[2:]), stride, _of_each_axis(padding, weight), dilation, groups)
    image, outputs = (dy, x) if transposed else (x, dy)
    dx = _input_gradient(dy, x, weight, windows, transposed=transposed) if output_mask[0] else None
    counts = list(x.shape[2:])
    has_room = transposed and _has_room(output_padding, stride)
    if dx is not None and has_room and all(isinstance(count, int) for count in counts):
        dx = _part(dx, 2, [0] * len(counts), counts, [1] * len(counts))
    return (
        dx,
        _weight_gradient(image, outputs, windows, weight_gradient) if output_mask[1] else None,
        dy.sum([0, *range(2, dy.ndim)]) if output_mask[2] else None,
    )


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor, windows: Windows, *, transposed: bool) -> Tensor:
    """Return dx: the convolution of dy in the other direction, with as many rows as the forward pass rounded off."""
    kernel, stride, padding, dilation, groups = windows
    none = [0] * len(kernel)
    if transposed:
        return aten.convolution(dy, weight, None, stride, padding, dilation, False, none, groups)
    if is_turned_round(windows.axes, x.shape[1], dy.shape[1], groups):
        turned = turn_round(weight).transpose(0, 1)
        pads = [window.extent - 1 - window.begin for window in windows.axes]
        return aten.convolution(dy, turned, None, stride, pads, dilation, False, none, 1)
    return spread(dy, x, weight, windows)


def spread(dy: Tensor, x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    """Return a transposed convolution of dy with as many elements along the last axes as x has there."""
    kernel, stride, padding, dilation, groups = windows
    axes = range(-len(kernel), 0)
    sizes = zip(windows.axes, x.shape[axes.start :], dy.shape[2:], strict=True)
    behind = [window.end - window.overhang(size, count) for window, size, count in sizes]
    is_known = [is_number(less) and less >= 0 for less in behind]
    most = [int(less) if known else step - 1 for less, known, step in zip(behind, is_known, stride, strict=True)]
    # Over three axes CANN has no more output_padding than padding; elements that no window reaches are zeros.
    output_padding = list(map(min, most, padding)) if len(kernel) == _VOLUME else most
    ends = [more - less for more, less in zip(most, output_padding, strict=True)]
    dx: Tensor = aten.convolution(dy, weight, None, stride, padding, dilation, True, output_padding, groups)
    dx = functional.pad(dx, [amount for end in reversed(ends) for amount in (0, end)]) if any(ends) else dx
    for axis, known in zip(axes, is_known, strict=True):
        dx = dx if known else dx.index_select(axis, positions_along(x, axis))
    return dx


def _weight_gradient(image: Tensor, outputs: Tensor, windows: Windows, written: WeightGradient) -> Tensor:
    """Return the weight's gradient. `image` is what the windows move over."""
    each = image.shape[1] // windows.groups, outputs.shape[1] // windows.groups
    batch, _, *counts = outputs.shape
    is_fixed = all(isinstance(count, int) for count in counts)  # and not symbolic
    known = batch if is_fixed and isinstance(batch, int) else None
    found = spelling(windows.axes, counts, *each, batch=known, convolution=written == "by_shape" and is_fixed)
    return _WAYS[Spelling.CONVOLUTION if written == "convolution" else found](image, outputs, windows)


def _by_product_per_position(image: Tensor, outputs: Tensor, windows: Windows) -> Tensor:
    """Return dw: for each position in the kernel, a product of `_factors`."""
    rows, parts = _factors(image, outputs, windows)
    stacked = torch.cat([rows @ part for part in parts])
    found = stacked.reshape(*windows.kernel, *rows.shape[:-1], -1)
    axes = len(windows.kernel)
    order = *range(axes, found.ndim), *range(axes)
    return found.permute(order).reshape(-1, found.shape[-1], *windows.kernel)


def _by_rows(image: Tensor, outputs: Tensor, windows: Windows) -> Tensor:
    """Return dw: one product of `_factors`, with the elements of x at all positions, (G, N·L, C·K)."""
    rows, parts = _factors(image, outputs, windows)
    columns = torch.cat([part.unsqueeze(-1) for part in parts], -1)
    return (rows @ columns.flatten(-2)).reshape(-1, columns.shape[-2], *windows.kernel)


def _factors(image: Tensor, outputs: Tensor, windows: Windows) -> tuple[Tensor, list[Tensor]]:
    """Return dy as (G, O, N·L), and the elements of x at each position, (G, N·L, C). Of one group, without G."""
    groups, axes = windows.groups, len(windows.kernel)
    channels, results = image.shape[1] // groups, outputs.shape[1] // groups
    lead = [groups] if groups > 1 else []
    last = image.permute(0, *range(2, image.ndim), 1)
    if lead:
        last = image.reshape(-1, groups, channels, *image.shape[2:]).permute(1, 0, *range(3, 3 + axes), 2)
    parts = _positions(last, outputs, windows, first_axis=1 + len(lead))
    rows = outputs.transpose(0, 1).reshape(*lead, results, -1)
    return rows, [part.reshape(*lead, -1, channels) for part in parts]


def _by_columns(image: Tensor, outputs: Tensor, windows: Windows) -> Tensor:
    """Return dw: the columns of x, (N, G, K·C, L), by dy as (N, G, L, O), added up over N."""
    groups, channels, results = windows.groups, image.shape[1] // windows.groups, outputs.shape[1] // windows.groups
    places = outputs[0, 0].numel()  # not -1: it may be 0
    batch = -1 if isinstance(places, int) else outputs.shape[0]
    columns = [
        each.reshape(batch, groups, channels, places) for each in _positions(image, outputs, windows, first_axis=2)
    ]
    rows = outputs.reshape(batch, groups, results, places).transpose(2, 3)
    product = (torch.cat(columns, 2) @ rows).sum(0).reshape(groups, len(columns), channels, results)
    return product.permute(0, 3, 2, 1).reshape(-1, channels, *windows.kernel)


def _by_sums(image: Tensor, outputs: Tensor, windows: Windows) -> Tensor:
    """Return dw of a convolution whose channels have one filter each: for each position in the kernel, Σ dy · x."""
    others = [0, *range(2, image.ndim)]
    parts = _positions(image, outputs, windows, first_axis=2)
    sums = [(outputs * each).sum(others, keepdim=True) for each in parts]
    return torch.cat(sums, 2).reshape(-1, 1, *windows.kernel)


def _positions(image: Tensor, outputs: Tensor, windows: Windows, *, first_axis: int) -> Iterator[Tensor]:
    """Yield the elements of the padded image that each position in the kernel meets.

    The axes of the windows begin at `first_axis`, in `outputs` at 2.
    """
    after = image.ndim - first_axis - len(windows.kernel)
    pads = [pad for padding in reversed(windows.padding) for pad in (padding, padding)]
    padded = aten.constant_pad_nd(image, [0, 0] * after + pads, 0) if any(pads) else image
    counts = list(outputs.shape[2:])
    if not all(isinstance(count, int) for count in counts):
        yield from _along_symbolic_axes(padded, outputs, windows, first_axis)
        return
    for position in itertools.product(*map(range, windows.kernel)):
        starts = [tap * dilation for tap, dilation in zip(position, windows.dilation, strict=True)]
        yield _part(padded, first_axis, starts, counts, windows.stride)


def _along_symbolic_axes(
    x: Tensor, outputs: Tensor, windows: Windows, first_axis: int, axis: int = 0
) -> Iterator[Tensor]:
    """Yield the same elements of a padded image, from an axis of the windows on, as many as `outputs` tells."""
    if axis == len(windows.kernel):
        yield x
        return
    step, count = windows.stride[axis], outputs.shape[2 + axis]
    for tap in range(windows.kernel[axis]):
        start = tap * windows.dilation[axis]
        behind = x.shape[first_axis + axis] - (start + (count - 1) * step + 1)
        found = x
        if step > 1 or not is_number(behind):
            found = x.index_select(first_axis + axis, positions_along(outputs, 2 + axis, start, step))
        elif start or behind:  # a number, counted from the last element
            found = aten.slice(x, first_axis + axis, start, -int(behind) if behind else None)
        yield from _along_symbolic_axes(found, outputs, windows, first_axis, axis + 1)


def _part(x: Tensor, first_axis: int, starts: list[int], counts: list[int], steps: Sequence[int]) -> Tensor:
    """Return so many elements along consecutive axes; x if it has no others."""
    is_whole = not any(starts) and list(x.shape[first_axis : first_axis + len(starts)]) == counts
    return x if is_whole else part(x, first_axis, starts, counts, list(steps))


def _by_convolution(image: Tensor, outputs: Tensor, windows: Windows) -> Tensor:
    """Return the weight's gradient as one convolution, with batch and channels, and stride and dilation, exchanged."""
    sizes, groups, channels = image.shape[2:], windows.groups, image.shape[1] // windows.groups
    exchanged = image.transpose(0, 1)
    if groups > 1 and channels > 1:
        exchanged = image.reshape(-1, groups, channels, *sizes).permute(2, 1, 0, *range(3, 3 + len(sizes)))
    none, operands = [0] * len(sizes), (exchanged.reshape(channels, -1, *sizes), outputs.transpose(0, 1), None)
    numbers = windows.dilation, windows.padding, windows.stride
    result = aten.convolution(*operands, *numbers, False, none, groups)
    return _part(result, 2, none, list(windows.kernel), [1] * len(sizes)).transpose(0, 1)


_WAYS = {
    Spelling.POSITIONS: _by_product_per_position,
    Spelling.ROWS: _by_rows,
    Spelling.COLUMNS: _by_columns,
    Spelling.SUMS: _by_sums,
    Spelling.CONVOLUTION: _by_convolution,
}
