# SPDX-License-Identifier: Apache-2.0

"""Gradients of pools, and adaptive pools whose sizes do not divide, in operators that torch's ONNX exporter knows.

Elements of 16 bits are computed in float32, since onnxruntime adds no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from operator import mul
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.model.windows import AxisWindow, MeanWindows, adaptive_bounds
from poolgrad_lowering.torch.internals.tracing import is_number
from poolgrad_lowering.torch.operators.along_axes import (
    Matrix,
    along_axes,
    last,
    places,
    products_from_the_last_axis,
)
from poolgrad_lowering.torch.operators.normalization import wide_type
from poolgrad_lowering.torch.own_gradients import input_gradient

aten = torch.ops.aten

_MOST_ELEMENTS = 255
"""Of a window of an average pool, and of a kernel along an axis, as CANN documents."""


def max_pool_backward(axes: int, dy: Tensor, x: Tensor, *attributes_and_indices: Any) -> Tensor:
    """Return the gradient of a max pool over the last `axes` axes: dy scattered with addition onto zeros, by planes.

    The indices of a plane, the operator's last argument, count from the plane's first element.
    """
    indices = attributes_and_indices[-1]
    planes = math.prod(x.shape[:-axes])
    zeros = torch.zeros_like(x.reshape(planes, -1), dtype=wide_type(dy))
    rows = dy.reshape(planes, -1).to(wide_type(dy))
    return zeros.scatter_add(1, indices.reshape(planes, -1), rows).reshape(x.shape).to(dy.dtype)


def max_pool(axes: int, x: Tensor, *windows: Any) -> tuple[Tensor, Tensor]:
    """Return a max pool and its indices with a batch: torch's translation keeps no sizes of a pool without one.

    Returns `NotImplemented` if x has a batch.
    """
    if x.ndim > axes + 1:
        return NotImplemented
    operator = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}[axes]
    y, indices = operator(x.unsqueeze(0), *windows)
    return y.squeeze(0), indices.squeeze(0)


def adaptive_max_pool(axes: int, x: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the maxima of adaptive windows and their indices, by tables of the windows of a plane.

    Returns `NotImplemented` if the sizes divide: torch has decompositions of these. A window with NaN has a maximum
    that onnxruntime chooses. bfloat16 is pooled as float32, which holds the same values: the lowering reads the fill of
    the tables as numbers of numpy, which has no bfloat16.
    """
    sizes = x.shape[-axes:]
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        return NotImplemented
    if x.dtype == torch.bfloat16:
        largest, indices = adaptive_max_pool(axes, x.float(), counts)
        return largest.to(x.dtype), indices
    table, gathered, masked = _gathered(x, sizes, counts, -math.inf)
    largest = masked.argmax(-1, keepdim=True)
    positions = table + torch.zeros_like(gathered, dtype=table.dtype)  # a constant cannot expand to a symbolic size
    shape = [*x.shape[:-axes], *counts]
    return masked.amax(-1).reshape(shape), positions.gather(-1, largest).reshape(shape)


def _gathered(x: Tensor, sizes: Sequence[int], counts: Sequence[int], fill: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the table of the elements of each adaptive window, these elements, and them with a fill in short rows.

    A row of the table that is shorter than others repeats its last element.
    """
    along = [_adaptive(*axis) for axis in zip(sizes, counts, strict=True)]
    plane = np.arange(math.prod(sizes)).reshape(sizes)
    windows = [plane[np.ix_(*window)].flatten().tolist() for window in product(*along)]
    longest = max(map(len, windows))
    table = torch.tensor([window + window[-1:] * (longest - len(window)) for window in windows])
    mask = torch.tensor([[element < len(window) for element in range(longest)] for window in windows])
    outer = x.shape[: -len(sizes)]
    gathered = x.reshape(*outer, -1).index_select(-1, table.reshape(-1)).reshape(*outer, *table.shape)
    return table, gathered, torch.where(mask, gathered, fill)


def average_pool(
    axes: int,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    """Return an average pool as torch's exporter knows it.

    It has no divisor of its own, a number for each axis, and a batch, without which the exporter keeps no sizes.
    Windows that CANN has no average pool for are reduced if they lie side by side. Returns `NotImplemented` if it is
    one that torch's exporter knows.
    """
    operator = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}[axes]
    if x.ndim == axes + 1:
        others = kernel, stride, padding, ceil_mode, count_include_pad, divisor
        return operator(x.unsqueeze(0), *others).squeeze(0)
    given = [list(kernel), list(stride), list(padding)]
    kernel, stride, padding = windows = _for_each_axis(axes, kernel, stride, padding)
    if _are_large(kernel) and _lie_side_by_side(windows, ceil=ceil_mode):
        return _reduced(x, kernel, divisor)
    if divisor is None:
        if any(len(numbers) == 1 and numbers != [0] for numbers in given):  # [0] is the default of the padding
            return operator(x, kernel, stride, padding, ceil_mode, count_include_pad)
        return NotImplemented
    averages: Tensor = operator(x.to(wide_type(x)), kernel, stride, padding, ceil_mode)
    counts = _elements(_mean_windows(x, averages, windows, padded=True), ceil=ceil_mode)
    return (averages * counts / divisor).to(x.dtype)


def _are_large(kernel: Sequence[int]) -> bool:
    """Return whether windows have more elements than CANN documents for an average pool over one or two axes."""
    return all(map(is_number, kernel)) and math.prod(kernel) > _MOST_ELEMENTS


def _lie_side_by_side(numbers: Sequence[Sequence[int]], *, ceil: bool) -> bool:
    """Return whether windows of this kernel, stride and padding follow each other without gap, overlap or padding."""
    kernel, stride, padding = numbers
    return kernel == stride and not any(padding) and not ceil


def _reduced(x: Tensor, kernel: Sequence[int], divisor: int | None) -> Tensor:
    """Return the averages of windows that lie side by side."""
    first = x.ndim - len(kernel)
    split = list(x.shape[:first])
    for axis, size in enumerate(kernel, start=first):
        count = x.shape[axis] // size
        x = aten.slice(x, axis, 0, count * size)
        split += [count, size]
    sums = x.to(wide_type(x)).reshape(split).sum(list(range(first + 1, len(split), 2)))
    return (sums / (divisor or math.prod(kernel))).to(x.dtype)


def _spread(y: Tensor, kernel: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return each element in all places of its window, and zeros behind the last windows."""
    first = y.ndim - len(kernel)
    split = list(y.shape[:first])
    for count, size in zip(y.shape[first:], kernel, strict=True):
        split += [count, size]
    apart = [*split[:first], *(size for count in y.shape[first:] for size in (count, 1))]
    behind = [size - count * step for size, count, step in zip(shape[first:], y.shape[first:], kernel, strict=True)]
    whole = y.reshape(apart).expand(split).reshape(*shape[:first], *map(mul, y.shape[first:], kernel))
    return functional.pad(whole, [amount for rest in reversed(behind) for amount in (0, rest)])


def average_pool_backward(
    axes: int,
    dy: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """Return the gradient of an average pool: every element of dy, divided, is added to all elements of its window."""
    kernel, stride, padding = numbers = _for_each_axis(axes, kernel, stride, padding)
    pool = _mean_windows(x, dy, numbers, padded=count_include_pad)
    divided = dy.to(wide_type(dy)) / (divisor or _elements(pool, ceil=ceil_mode))
    if max(kernel) > _MOST_ELEMENTS and _lie_side_by_side(numbers, ceil=ceil_mode):
        return _spread(divided, kernel, x.shape).to(dy.dtype)
    none, one = [0] * axes, [1] * axes
    ones = torch.ones(1, 1, *kernel, dtype=wide_type(dy))
    planes = divided.reshape(-1, 1, *pool.counts)
    if not _are_numbers(pool.sizes):
        if all(step == 1 for step in stride):  # a ConvTranspose: the gradient of an image would be a Conv
            sums = aten.convolution(planes, ones, None, stride, padding, one, True, none, 1)
        else:
            image = x if x.ndim > axes + 1 else x.unsqueeze(0)
            sums = input_gradient(planes, ones, image, pool.windows, 1)
        return sums.reshape(x.shape).to(dy.dtype)
    whole = aten.convolution(planes, ones, None, stride, none, one, True, none, 1)
    ends = zip(reversed(pool.windows), reversed(pool.overhangs()), strict=True)
    cut = [-int(amount) for window, end in ends for amount in (window.begin, end)]
    return functional.pad(whole, cut).reshape(x.shape).to(dy.dtype)


def adaptive_average_pool(axes: int, x: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the averages of adaptive windows, as a product with a matrix along each axis.

    Returns `NotImplemented` if the sizes of a plane are numbers that divide: torch has an average pool for them.
    """
    sizes = x.shape[-axes:]
    if not _are_numbers(sizes):
        return along_axes(x, _averages_along(sizes, counts))
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        kernel = [size // count for size, count in zip(sizes, counts, strict=True)]
        if _are_large(kernel):
            return _reduced(x, kernel, None)
        if axes < 3:
            return NotImplemented
    return along_axes(x, _averages_along(sizes, counts))


def adaptive_average_pool_backward(axes: int, dy: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of an adaptive average pool: each element of x gets the sum over the windows that contain it.

    If the sizes divide, all windows have one size, and it is that of an average pool. Otherwise the elements of dy,
    divided, are gathered by a table of the windows of each element of a plane. Of symbolic sizes it is a product.
    """
    sizes, counts = x.shape[-axes:], dy.shape[-axes:]
    if not _are_numbers(sizes):
        return products_from_the_last_axis(dy, [matrix.T for matrix in _averages_along(sizes, counts)])
    if all(size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        kernel = [size // count for size, count in zip(sizes, counts, strict=True)]
        return average_pool_backward(axes, dy, x, kernel, kernel, [0] * axes, False, False, None)
    along = [_adaptive(*axis) for axis in zip(sizes, counts, strict=True)]
    elements = torch.tensor([math.prod(map(len, window)) for window in product(*along)]).reshape(list(counts))
    # Elements are to windows what windows are to elements.
    *_, terms = _gathered(dy.to(wide_type(dy)) / elements, counts, sizes, 0.0)
    return terms.sum(-1).reshape(x.shape).to(dy.dtype)


def _for_each_axis(axes: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> list[list[int]]:
    """Return kernel, stride and padding with a number for each axis: one number is that of all axes.

    Without a stride, it is the kernel.
    """
    return [list(given) * (axes if len(given) == 1 else 1) for given in (kernel, stride or kernel, padding)]


def _adaptive(size: int, count: int) -> list[range]:
    """Return the positions of each adaptive window along an axis."""
    return [range(*adaptive_bounds(number, size, count)) for number in range(count)]


def _mean_windows(x: Tensor, y: Tensor, numbers: Sequence[Sequence[int]], *, padded: bool) -> MeanWindows:
    """Return the windows of an average pool from x to y with a kernel, a stride and a padding for each axis."""
    windows = [AxisWindow(extent, step, pad, pad, 1) for extent, step, pad in zip(*numbers, strict=True)]
    axes = len(windows)
    return MeanWindows(windows, x.shape[-axes:], y.shape[-axes:], padded)


def _elements(pool: MeanWindows, *, ceil: bool) -> Tensor:
    """Return how many elements each window of an average pool has; one number if that does not depend on its place."""
    if _are_numbers((*pool.sizes, *pool.counts)):
        return torch.tensor(np.broadcast_to(pool.divisors(), pool.counts).tolist())
    if not ceil and (pool.padded or not any(window.begin for window in pool.windows)):
        return torch.tensor(math.prod(window.kernel for window in pool.windows))
    numbers = torch.ones((), dtype=torch.int64)
    for window, size, count in zip(pool.windows, pool.sizes, pool.counts, strict=True):
        begins = torch.arange(count) * window.stride - window.begin
        low, high = (-window.begin, size + window.end) if pool.padded else (0, size)
        numbers = numbers[..., None] * ((begins + window.kernel).clamp(max=high) - begins.clamp(min=low))
    return numbers


def _are_numbers(sizes: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _averages_along(sizes: Sequence[Any], counts: Sequence[Any]) -> list[Matrix]:
    """Return for each axis the matrix, count by size, that averages its adaptive windows."""
    axes = zip(sizes, counts, strict=True)
    return [_averages(*axis) if _are_numbers(axis) else _computed_averages(*axis) for axis in axes]


def _averages(size: int, count: int) -> np.ndarray:
    return np.array(
        [[(element in window) / len(window) for element in range(size)] for window in _adaptive(size, count)]
    )


def _computed_averages(size: Any, count: Any) -> Tensor:
    """Of a symbolic size: element e is in window w if ⌊w · size / count⌋ ≤ e < ⌈(w + 1) · size / count⌉."""
    elements, windows = places(size), places(count)[:, None]
    extent = last(elements) + 1
    begins, ends = (windows * extent / count).floor(), ((windows + 1) * extent / count).ceil()
    return ((elements >= begins) & (elements < ends)).to(elements.dtype) / (ends - begins)


_BY_AXES: dict[str, Callable[..., Any]] = {
    "max_pool{}d_with_indices": max_pool,
    "max_pool{}d_with_indices_backward": max_pool_backward,
    "adaptive_max_pool{}d": adaptive_max_pool,
    "adaptive_max_pool{}d_backward": max_pool_backward,
    "avg_pool{}d": average_pool,
    "avg_pool{}d_backward": average_pool_backward,
    "_adaptive_avg_pool{}d": adaptive_average_pool,
    "_adaptive_avg_pool{}d_backward": adaptive_average_pool_backward,
}

POOLS: dict[Any, Callable[..., Any]] = {
    getattr(aten, name.format(axes)).default: partial(write, axes)
    for name, write in _BY_AXES.items()
    for axes in (2, 3)
}
