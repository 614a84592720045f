# SPDX-License-Identifier: Apache-2.0

"""Interpolation, whose results and gradients are products with one matrix along each axis.

With n elements along an axis and m results, the result i is at the position

    p_i = r · (i + ½) − ½ with r = n / m, or with `align_corners` p_i = r · i with r = (n − 1) / (m − 1)

between the elements (`model.interpolation`). A matrix is a constant; that of a symbolic size is computed. With
`antialias` the weights reach as much farther as there are fewer results than elements, and those of the elements that
exist are divided by their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from poolgrad_lowering.model.interpolation import Weights, antialiased, cubic, linear, taps
from poolgrad_lowering.torch.internals.symbols import is_transformed
from poolgrad_lowering.torch.internals.tracing import is_known, is_number
from poolgrad_lowering.torch.operators.along_axes import Matrix, along_axes, last, places
from poolgrad_lowering.torch.operators.normalization import wide_type
from poolgrad_lowering.torch.own_operators import repeat

aten = torch.ops.aten


class _Repeated(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, factors: list[int]) -> Tensor:
        """Return the repeated elements. onnxruntime repeats none of 16 bits."""
        context.factors = factors
        found: Tensor = repeat(x.to(wide_type(x)), factors)
        return found.to(x.dtype)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the sums over the copies, as averages, which are faster."""
        (dy,), factors = gradients, context.factors
        average = {1: aten.avg_pool1d, 2: aten.avg_pool2d, 3: aten.avg_pool3d}[len(factors)]
        averages: Tensor = average(dy.to(wide_type(dy)), factors, factors)
        return (averages * math.prod(factors)).to(dy.dtype), None


def _filtered(radius: int, weights: Weights, size: int, count: int, ratio: float, align_corners: bool) -> np.ndarray:
    """Return the weights of all elements for each result, by their distances; at `radius` and farther they are 0."""
    results = np.arange(count, dtype=np.float64)
    positions = ratio * results if align_corners else ratio * (results + 0.5) - 0.5
    return taps(positions, size, radius, weights)


def _antialiased(weights: Weights, size: int, count: int, ratio: float, _align_corners: bool) -> np.ndarray:
    """Return the same with `antialias`, where `align_corners` changes the ratio alone."""
    return antialiased(weights, size, count, ratio)


def _antialiased_results(weights: Weights, size: int, count: int, ratio: float, align_corners: bool) -> np.ndarray:
    """Return those of PyTorch's results, which leave an axis as it is if its size stays; its gradients do not."""
    return np.eye(size) if size == count else _antialiased(weights, size, count, ratio, align_corners)


def _nearest(offset: float, size: int, count: int, ratio: float, _align_corners: bool) -> np.ndarray:
    """Return for each result a single 1, at the element that it is. As in PyTorch, positions are in float32."""
    positions = ((np.arange(count) + offset).astype(np.float32) * np.float32(ratio)).astype(int)
    return np.eye(size)[positions.clip(0, size - 1)]


def _nearest_exact_results(size: int, count: int, ratio: float, _align_corners: bool) -> np.ndarray:
    """Return those of PyTorch's results along 1 or 3 axes: p + ½ of a p that is rounded once."""
    positions = float(np.float32(ratio)) * (np.arange(count) + 0.5) - 0.5  # exact in float64
    return np.eye(size)[(positions.astype(np.float32) + np.float32(0.5)).astype(int).clip(0, size - 1)]


def _computed_linear(size: Any, count: Any, ratio: float | Tensor, align_corners: bool) -> Tensor:
    elements, results = places(size), places(count)
    positions = ratio * results if align_corners else ratio * (results + 0.5) - 0.5
    positions = torch.minimum(positions.clamp(min=0), last(elements))
    return (1 - (positions[:, None] - elements).abs()).clamp(min=0)


def _computed_nearest(offset: float, size: Any, count: Any, ratio: float | Tensor, _align_corners: bool) -> Tensor:
    elements = places(size)
    positions = torch.minimum(((places(count) + offset) * ratio).floor(), last(elements))
    return (positions[:, None] == elements).to(elements.dtype)


class _Way(NamedTuple):
    """What gives the matrix of an axis: a constant, or for symbolic sizes what is `computed`, if that is known.

    PyTorch ignores a factor where there are as many times as many results as elements as one of `fixed` says.
    """

    constant: Callable[..., np.ndarray]
    computed: Callable[..., Tensor] | None = None
    fixed: tuple[int, ...] = ()


_LINEAR = _Way(partial(_filtered, 1, linear), _computed_linear, (1,))
_CUBIC = _Way(partial(_filtered, 2, cubic))
_NEAREST = _Way(partial(_nearest, 0.0), partial(_computed_nearest, 0.0), (1, 2))
_NEAREST_BY_FACTOR = _NEAREST._replace(fixed=())
_NEAREST_EXACT = _Way(partial(_nearest, 0.5), partial(_computed_nearest, 0.5))
_ROUNDED_ONCE = _NEAREST_EXACT._replace(constant=_nearest_exact_results)


def _with_antialias(weights: Weights) -> tuple[_Way, _Way]:
    return _Way(partial(_antialiased_results, weights)), _Way(partial(_antialiased, weights))


def _interpolate(of_results: _Way, of_gradients: _Way, x: Tensor, *arguments: Any) -> Tensor:
    """Return an interpolation. The arguments are those of the operators: sizes, `align_corners` if it has it, factors.

    Returns `NotImplemented` for integers, for symbolic sizes that nothing computes, and within a transform of
    torch.func, which takes no function with a gradient of its own.
    """
    sizes, counts = x.shape[2:], arguments[0]
    factors = arguments[-1] or [None] * len(sizes)
    if counts is None:
        counts = [
            size * int(factor) if factor == int(factor) else math.floor(size * factor)
            for size, factor in zip(sizes, factors, strict=True)
        ]
    is_symbolic = not all(isinstance(size, int) for size in (*sizes, *counts))
    if not x.is_floating_point() or is_transformed() or (is_symbolic and of_results.computed is None):
        return NotImplemented
    align_corners = len(arguments) > 2 and arguments[1]
    axes = list(zip(sizes, counts, factors, strict=True))
    results = [_along_axis(of_results, *axis, align_corners) for axis in axes]
    is_one = of_gradients is of_results
    gradients = results if is_one else [_along_axis(of_gradients, *axis, align_corners) for axis in axes]
    if of_results is _CUBIC and list(counts) == list(sizes):
        gradients = [np.eye(size) for size in sizes]  # as PyTorch has it, whatever the results are
    times = _repeats(of_results, results, sizes, counts)
    if times is not None and times == _repeats(of_gradients, gradients, sizes, counts):
        return _Repeated.apply(x, times)
    return along_axes(x, results, gradients)


def _along_axis(way: _Way, size: Any, count: Any, factor: float | None, align_corners: bool) -> Matrix:
    ratio = _ratio(size, count, None if align_corners else factor, int(align_corners), way.fixed)
    function: Any = way.constant if isinstance(size, int) and isinstance(count, int) else way.computed
    found: Matrix = function(size, count, ratio, align_corners)
    return found


def _repeats(way: _Way, matrices: Sequence[Matrix], sizes: Sequence[Any], counts: Sequence[Any]) -> list[int] | None:
    """Return how often each element is repeated along each axis, if nothing else is done; else None."""
    times = [count // size for size, count in zip(sizes, counts, strict=True)]
    for weights, size, count, number in zip(matrices, sizes, counts, times, strict=True):
        if isinstance(weights, np.ndarray):
            is_repeated = np.array_equal(weights, np.repeat(np.eye(size), number, 0))
        else:
            is_whole = is_number(number) and is_known(count == size * number)
            is_repeated = is_whole and way is not _LINEAR
        if not is_repeated:
            return None
    return list(map(int, times))


def _ratio(size: Any, count: Any, factor: float | None, less: int, fixed: Sequence[int]) -> float | Tensor:
    """Return 1 / factor, or (size - less) / (count - less), 0 for a count of `less`, if there is none or it is ignored.

    It is ignored where there are as many times as many results as elements as one of `fixed` says. If sizes decide that
    are not known, the ratio is a tensor of one number.
    """
    if isinstance(size, int) and isinstance(count, int):
        if factor is not None and count not in [number * size for number in fixed]:
            return 1 / factor
        return (size - less) / (count - less) if count > less else 0.0
    if factor is not None and (not fixed or factor == int(factor)):
        return 1 / factor
    for one, other, power in ((count, size, -1.0), (size, count, 1.0)):
        if not less and is_number(one // other) and is_known(one == other * (one // other)):
            return float(int(one // other) ** power)
    elements, results = (
        torch.full((1,), float(number)) if isinstance(number, int) else last(places(number)) + 1
        for number in (size, count)
    )
    of_sizes = (elements - less) / (results - less).clamp(min=1)
    if factor is None:
        return of_sizes
    is_ignored = reduce(or_, (results == number * elements for number in fixed))
    return torch.where(is_ignored, of_sizes, 1 / factor)


_WAYS: Mapping[Any, tuple[_Way, _Way]] = {
    aten.upsample_linear1d.vec: (_LINEAR, _LINEAR),
    aten.upsample_bilinear2d.vec: (_LINEAR, _LINEAR),
    aten.upsample_trilinear3d.vec: (_LINEAR, _LINEAR),
    aten.upsample_bicubic2d.vec: (_CUBIC, _CUBIC),
    aten._upsample_bilinear2d_aa.vec: _with_antialias(linear),  # noqa: SLF001 - the names of operators
    aten._upsample_bicubic2d_aa.vec: _with_antialias(partial(cubic, a=-0.5)),  # noqa: SLF001 - that of Pillow
    aten.upsample_nearest1d.vec: (_NEAREST_BY_FACTOR, _NEAREST),
    aten.upsample_nearest2d.vec: (_NEAREST, _NEAREST),
    aten.upsample_nearest3d.vec: (_NEAREST_BY_FACTOR, _NEAREST),
    aten._upsample_nearest_exact1d.vec: (_ROUNDED_ONCE, _NEAREST_EXACT),  # noqa: SLF001
    aten._upsample_nearest_exact2d.vec: (_NEAREST_EXACT, _NEAREST_EXACT),  # noqa: SLF001
    aten._upsample_nearest_exact3d.vec: (_ROUNDED_ONCE, _NEAREST_EXACT),  # noqa: SLF001
}
"""The ways of results and of gradients, which PyTorch may compute by another matrix."""

INTERPOLATIONS = {operator: partial(_interpolate, *ways) for operator, ways in _WAYS.items()}
