# SPDX-License-Identifier: Apache-2.0

"""Padding of any kind and its gradients, in operators that torch's ONNX exporter can translate.

`pads` are those before and after each axis, from the last axis on. Negative ones cut elements off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.torch.internals.tracing import is_known, is_number
from poolgrad_lowering.torch.operators.along_axes import products_from_the_last_axis

aten = torch.ops.aten


def _pad(x: Tensor, pads: Sequence[int], value: float = 0) -> Tensor:
    """Return the padded tensor, with slices for negative pads. Returns `NotImplemented` if there are none."""
    return NotImplemented if all(pad >= 0 for pad in pads) else _padded(x, pads, value)


def _padded(x: Tensor, pads: Sequence[int], value: float = 0) -> Tensor:
    """Return the tensor padded as it is written: slices for negative pads, and a pad if there are others."""
    for axis, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True), start=1):
        start, end = max(-before, 0), x.shape[-axis] - max(-after, 0)
        x = aten.slice(x, x.ndim - axis, start, end) if min(before, after) < 0 else x
    return aten.constant_pad_nd(x, [max(pad, 0) for pad in pads], value) if any(pad > 0 for pad in pads) else x


def _replication_pad(x: Tensor, pads: Sequence[int]) -> Tensor:
    """Return the tensor padded with its outer elements. Returns `NotImplemented` if no pad is negative."""
    if all(pad >= 0 for pad in pads):
        return NotImplemented
    cut, repeated = _cut_and_repeated(x, pads)
    cropped = _padded(x, [-count for count in cut])
    return functional.pad(cropped, repeated, mode="replicate") if any(repeated) else cropped


def _replication_pad_backward(gradient: Tensor, x: Tensor, pads: Sequence[int]) -> Tensor:
    """Return the gradient of x, whose outer elements along an axis also get those of the pads, and cut ones 0."""
    cut, repeated = _cut_and_repeated(x, pads)
    for axis, (before, after) in enumerate(zip(repeated[::2], repeated[1::2], strict=True), start=1):
        along, size = gradient.ndim - axis, gradient.shape[-axis]
        inner = size - before - after
        ends = [slice(before + 1), slice(before + inner - 1, size)] if inner > 1 else [slice(size)]
        first, *last = (aten.slice(gradient, along, e.start, e.stop).sum(along, keepdim=True) for e in ends)
        middle = [aten.slice(gradient, along, before + 1, before + inner - 1)] if inner > 2 else []
        gradient = torch.cat([first, *middle, *last], along)
    return aten.constant_pad_nd(gradient, cut) if any(cut) else gradient


def _cut_and_repeated(x: Tensor, pads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how many elements pads cut off before and after each axis, and how often its outer ones are then repeated.

    At least one element stays, which is repeated if a negative pad is as large as the axis.
    """
    cut, repeated = [], []
    for axis, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True), start=1):
        first, last = (min(max(-pad, 0), x.shape[-axis] - 1) for pad in (before, after))
        cut += [first, last]
        repeated += [max(before + min(after, 0) + last, 0), max(after + min(before, 0) + first, 0)]
    return cut, repeated


def _reflection_pad(x: Tensor, pads: Sequence[int]) -> Tensor:
    """Return the tensor padded with its mirror image. Returns `NotImplemented` if no pad is negative."""
    if all(pad >= 0 for pad in pads):
        return NotImplemented
    return _padded(functional.pad(x, [max(pad, 0) for pad in pads], mode="reflect"), [min(pad, 0) for pad in pads])


def _reflection_pad_backward(gradient: Tensor, x: Tensor, pads: Sequence[int]) -> Tensor:
    """Return the gradient of x, every element of which gets that of its copies: along each axis a matrix of 0 and 1.

    Returns `NotImplemented` if a size is symbolic.
    """
    sizes = x.shape[x.ndim - len(pads) // 2 :]
    if not all(isinstance(size, int) for size in sizes):
        return NotImplemented
    along = zip(sizes, pads[-2::-2], pads[::-2], strict=True)
    positions = [(size - 1, np.arange(-before, size + after)) for size, before, after in along]
    copies = [np.eye(last + 1)[last - np.abs(last - np.abs(position))].T for last, position in positions]
    return products_from_the_last_axis(gradient, copies)


def _slice_backward(gradient: Tensor, sizes: Sequence[Any], axis: int, *part: Any) -> Tensor:
    """Return the gradient of what a slice was taken of: the slice's with 0 around it, and between its elements.

    `part` is the slice's start, end and step. Where a symbolic size decides how many zeros there are, torch's
    translation stays.
    """
    axis, size, count = axis % len(sizes), sizes[axis], gradient.shape[axis]
    first, _, step = part
    if is_known(count == size):
        return gradient.clone()
    behind = [0, 0] * (gradient.ndim - axis - 1)
    cut = size - first - count  # of x[a:-b]: so many, whatever the size is
    if not isinstance(count, int) and step == 1 and all(map(is_number, (first, cut))) and first >= 0:
        return _padded(gradient, [*behind, first, int(cut)])
    if not all(isinstance(number, int) for number in (size, count, first)) or not count:
        return aten.slice_scatter(gradient.new_zeros(sizes), gradient, axis, *part)
    if step > 1 and count > 1:
        apart = aten.constant_pad_nd(gradient.unsqueeze(axis + 1), [*behind, 0, step - 1])
        gradient = apart.flatten(axis, axis + 1)
    before = max(first + size, 0) if first < 0 else first
    return _padded(gradient, [*behind, before, size - before - gradient.shape[axis]])


def _select_backward(gradient: Tensor, sizes: Sequence[Any], axis: int, index: int) -> Tensor:
    """Return the gradient of what an element along an axis was taken of."""
    axis %= len(sizes)
    if not isinstance(index, int) or not isinstance(sizes[axis], int):
        return aten.select_scatter(gradient.new_zeros(sizes), gradient, axis, index)
    return _slice_backward(gradient.unsqueeze(axis), sizes, axis, index, index + 1, 1)


def _by_axes(name: str, function: Callable[..., Tensor]) -> dict[Any, Callable[..., Tensor]]:
    """Return a function for the operators of this name over one to three axes."""
    return {getattr(aten, name.format(axes)).default: function for axes in (1, 2, 3)}


PADS: dict[Any, Callable[..., Tensor]] = {
    aten.constant_pad_nd.default: _pad,
    aten.slice_backward.default: _slice_backward,
    aten.select_backward.default: _select_backward,
    **_by_axes("replication_pad{}d", _replication_pad),
    **_by_axes("replication_pad{}d_backward", _replication_pad_backward),
    **_by_axes("reflection_pad{}d", _reflection_pad),
    **_by_axes("reflection_pad{}d_backward", _reflection_pad_backward),
}
