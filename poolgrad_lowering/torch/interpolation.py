# SPDX-License-Identifier: Apache-2.0

"""Interpolation, whose results and gradients are products with one constant matrix along each axis.

With n elements along an axis and m results, the result i is at the position

    p_i = r · (i + ½) − ½ with r = n / m, or with `align_corners` p_i = r · i with r = (n − 1) / (m − 1)

between the elements (`model.interpolation`). With `antialias` the weights reach as much farther as there are fewer
results than elements, and those of the elements that exist are divided by their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolgrad_lowering.model.interpolation import Weights, cubic, linear, taps
from poolgrad_lowering.torch.along_axes import along_axes
from poolgrad_lowering.torch.normalization import wide_type
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


def _filtered(radius: int, weights: Weights, size: int, count: int, ratio: float, *, align_corners: bool) -> np.ndarray:
    """Return the weights of all elements for each result, by their distances; at `radius` and farther they are 0."""
    results = np.arange(count, dtype=np.float64)
    positions = ratio * results if align_corners else ratio * (results + 0.5) - 0.5
    return taps(positions, size, radius, weights)


def _antialiased(weights: Weights, size: int, count: int, ratio: float, *, align_corners: bool) -> np.ndarray:  # noqa: ARG001
    """Return the same with `antialias`, where `align_corners` changes the ratio alone."""
    distances = np.arange(size) + 0.5 - ratio * (np.arange(count) + 0.5)[:, None]
    found = weights(distances / max(ratio, 1.0))
    return found / found.sum(1, keepdims=True)


def _nearest(offset: float, size: int, count: int, ratio: float, *, align_corners: bool) -> np.ndarray:  # noqa: ARG001
    """Return for each result a single 1, at the element that it is. As in PyTorch, positions are in float32."""
    positions = ((np.arange(count) + offset).astype(np.float32) * np.float32(ratio)).astype(int)
    return np.eye(size)[positions.clip(0, size - 1)]


def _interpolate(matrix: Callable[..., np.ndarray], x: Tensor, *arguments: Any) -> Tensor:
    """Return an interpolation. The arguments are those of the operator: sizes, `align_corners` if it has it, factors.

    Returns what torch computes if a size is symbolic or the numbers are integers.
    """
    sizes, counts, factors = x.shape[2:], arguments[0], arguments[-1]
    if not (x.is_floating_point() and all(isinstance(size, int) for size in (*sizes, *(counts or ())))):
        return NotImplemented
    if counts is None:
        counts = [math.floor(size * factor) for size, factor in zip(sizes, factors, strict=True)]
    align_corners = len(arguments) > 2 and arguments[1]
    matrices = []
    for size, count, factor in zip(sizes, counts, factors or [None] * len(sizes), strict=True):
        ratio = size / count if factor is None else 1 / factor
        if align_corners:
            ratio = (size - 1) / (count - 1) if count > 1 else 0.0
        matrices.append(matrix(size, count, ratio, align_corners=align_corners))
    times = [count // size for size, count in zip(sizes, counts, strict=True)]
    repeats = [np.repeat(np.eye(size), factor, 0) for size, factor in zip(sizes, times, strict=True)]
    if all(map(np.array_equal, matrices, repeats)):
        return _Repeated.apply(x, times)
    return along_axes(x, matrices)


_MATRICES: Mapping[Any, Callable[..., np.ndarray]] = {
    aten.upsample_linear1d.vec: partial(_filtered, 1, linear),
    aten.upsample_bilinear2d.vec: partial(_filtered, 1, linear),
    aten.upsample_trilinear3d.vec: partial(_filtered, 1, linear),
    aten.upsample_bicubic2d.vec: partial(_filtered, 2, cubic),
    aten._upsample_bilinear2d_aa.vec: partial(_antialiased, linear),  # noqa: SLF001 - the names of operators
    aten._upsample_bicubic2d_aa.vec: partial(_antialiased, partial(cubic, a=-0.5)),  # noqa: SLF001 - as Pillow does
    **dict.fromkeys((getattr(aten, f"upsample_nearest{axes}d").vec for axes in (1, 2, 3)), partial(_nearest, 0.0)),
    **dict.fromkeys(
        (getattr(aten, f"_upsample_nearest_exact{axes}d").vec for axes in (1, 2, 3)), partial(_nearest, 0.5)
    ),
}

INTERPOLATIONS = {operator: partial(_interpolate, matrix) for operator, matrix in _MATRICES.items()}
