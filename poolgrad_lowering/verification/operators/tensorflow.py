# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradients of pools as tf2onnx exports them, by TensorFlow's operator definitions.

Those of max pools recompute the maxima from x; of equal ones the first in row-major order gets the gradient. Those of
average pools have the shape of x as an operand, and divide by the number of elements of x in a window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.operators.pool import (
    AverageWindows,
    Pads,
    average_gradient,
    gradient_of,
    max_pool,
    plane_starts,
    same_pads,
)


class _LayoutWindows(NamedTuple):
    """The windows of a pool: the axis of the channels, and lists with an entry for each spatial axis of x."""

    channels: int
    sizes: list[int]
    kernel: list[int]
    strides: list[int]
    pads: Pads


def _windows(
    shape: Sequence[int],
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    **_: Any,
) -> _LayoutWindows:
    """Return the windows over an x of this shape, which has the layout `data_format`."""
    channels = data_format.index("C")
    spatial = [axis for axis in range(len(shape)) if axis not in (0, channels)]
    sizes, kernel, steps = ([numbers[axis] for axis in spatial] for numbers in (shape, ksize, strides))
    pads: Pads = [0] * len(spatial), [0] * len(spatial)
    if padding == "SAME":
        pads = same_pads(sizes, kernel, steps, [1] * len(spatial), upper=True)
    elif padding == "EXPLICIT":
        begins, ends = ([explicit_paddings[2 * axis + end] for axis in spatial] for end in (0, 1))
        pads = begins, ends
    return _LayoutWindows(channels, sizes, kernel, steps, pads)


def pool_gradient(x: AnyArray, dy: AnyArray, **attributes: Any) -> AnyArray:
    """Return dx of MaxPoolGrad and MaxPool3DGrad; x, dy and dx have the layout `data_format`."""
    channels, _, kernel, strides, pads = _windows(x.shape, **attributes)
    planes: AnyArray = np.moveaxis(x, channels, 1)
    positions = max_pool(planes, kernel, strides, [1] * len(kernel), pads)[1] + plane_starts(planes.shape)
    dx: AnyArray = np.moveaxis(gradient_of(planes, np.moveaxis(dy, channels, 1), positions), 1, channels)
    return dx


class _Gradient(OpRun):
    """MaxPoolGrad(x, y, dy), MaxPool3DGrad, and MaxPoolGradV2(x, y, dy, ksize, strides)."""

    def _run(self, x: AnyArray, _: AnyArray, dy: AnyArray, *windows: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        given = {name: numbers.tolist() for name, numbers in zip(("ksize", "strides"), windows, strict=False)}
        return (pool_gradient(x, dy, **attributes, **given),)


class _GradientWithArgmax(OpRun):
    """MaxPoolGradWithArgmax(x, dy, argmax), with positions in an (H, W, C) image or in the whole batch."""

    def _run(
        self, x: AnyArray, dy: AnyArray, argmax: AnyArray, *, include_batch_in_index: int = 0, **_: Any
    ) -> tuple[AnyArray]:
        image = 0 if include_batch_in_index else math.prod(x.shape[1:])
        first = (np.arange(len(x)) * image).reshape(-1, *[1] * (x.ndim - 1))
        return (gradient_of(x, dy, argmax + first),)


class _AverageGradient(OpRun):
    """AvgPoolGrad(orig_input_shape, dy) and AvgPool3DGrad; x and dy have the layout `data_format`."""

    def _run(self, shape: AnyArray, dy: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        channels, sizes, kernel, strides, pads = _windows(shape.tolist(), **attributes)
        windows = AverageWindows.fixed(sizes, kernel, strides, pads)
        dx: AnyArray = np.moveaxis(average_gradient(sizes, np.moveaxis(dy, channels, 1), windows), 1, channels)
        if dx.shape != tuple(shape):
            raise ValueError(f"x has shape {tuple(shape.tolist())}, its gradient {dx.shape}")
        return (dx,)


_KERNELS: dict[str, type[OpRun]] = {
    "AvgPoolGrad": _AverageGradient,
    "AvgPool3DGrad": _AverageGradient,
    "MaxPoolGrad": _Gradient,
    "MaxPool3DGrad": _Gradient,
    "MaxPoolGradV2": _Gradient,
    "MaxPoolGradWithArgmax": _GradientWithArgmax,
}

OPERATORS = tuple(
    type(name, (kernel,), {"op_domain": domain})
    for name, kernel in _KERNELS.items()
    for domain in ("ai.onnx.converters.tensorflow", "")
    if (name, domain) != ("MaxPoolGrad", "")
)
"""In the default domain MaxPoolGrad is onnxruntime's operator too, whose kernel calls `pool_gradient`."""
