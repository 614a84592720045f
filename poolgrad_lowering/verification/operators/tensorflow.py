# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradients of pools as tf2onnx exports them, by TensorFlow's operator definitions.

Those of max pools recompute the maxima from x; of equal ones the first in row-major order gets the gradient. Those of
average pools have the shape of x as an operand, and divide by the number of elements of x in a window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.operators.average import average_gradient, fixed_windows
from poolgrad_lowering.verification.operators.pool import Pads, gradient_of, max_pool, plane_starts, same_pads


def pool_gradient(
    x: AnyArray,
    dy: AnyArray,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    **_: Any,
) -> AnyArray:
    """Return dx of MaxPoolGrad and MaxPool3DGrad; x, dy and dx have the layout `data_format`."""
    channels = data_format.index("C")
    spatial = [axis for axis in range(x.ndim) if axis not in (0, channels)]
    planes: AnyArray = np.moveaxis(x, channels, 1)
    grad: AnyArray = np.moveaxis(dy, channels, 1)
    kernel, steps, ones = [ksize[a] for a in spatial], [strides[a] for a in spatial], [1] * len(spatial)
    pads: Pads = [0] * len(spatial), [0] * len(spatial)
    if padding == "SAME":
        pads = same_pads(planes.shape[2:], kernel, steps, ones, upper=True)
    elif padding == "EXPLICIT":
        begins, ends = ([explicit_paddings[2 * axis + end] for axis in spatial] for end in (0, 1))
        pads = begins, ends
    positions = max_pool(planes, kernel, steps, ones, pads)[1]
    dx = gradient_of(planes, grad, positions + plane_starts(planes.shape))
    moved: AnyArray = np.moveaxis(dx, 1, channels)
    return moved


def average_pool_gradient(
    shape: Sequence[int],
    dy: AnyArray,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
    **_: Any,
) -> AnyArray:
    """Return dx of AvgPoolGrad and AvgPool3DGrad; `shape` is that of x, in the layout `data_format` as dy."""
    channels = data_format.index("C")
    spatial = [axis for axis in range(dy.ndim) if axis not in (0, channels)]
    sizes, kernel, steps = ([numbers[axis] for axis in spatial] for numbers in (shape, ksize, strides))
    none = [0] * len(spatial)
    pads = same_pads(sizes, kernel, steps, [1] * len(spatial), upper=True) if padding == "SAME" else (none, none)
    planes: AnyArray = np.moveaxis(dy, channels, 1)
    dx = average_gradient(sizes, planes, fixed_windows(sizes, kernel, steps, pads))
    moved: AnyArray = np.moveaxis(dx, 1, channels)
    if moved.shape != tuple(shape):
        raise ValueError(f"x has shape {tuple(shape)}, its gradient {moved.shape}")
    return moved


class _Gradient(OpRun):
    """MaxPoolGrad(x, y, dy) and MaxPool3DGrad."""

    def _run(self, x: AnyArray, _: AnyArray, dy: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        return (pool_gradient(x, dy, **attributes),)


class _GradientV2(OpRun):
    """MaxPoolGradV2(x, y, dy, ksize, strides)."""

    def _run(self, x: AnyArray, _: AnyArray, dy: AnyArray, *windows: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        ksize, strides = (numbers.tolist() for numbers in windows)
        return (pool_gradient(x, dy, ksize=ksize, strides=strides, **attributes),)


class _GradientWithArgmax(OpRun):
    """MaxPoolGradWithArgmax(x, dy, argmax), with positions in an (H, W, C) image or in the whole batch."""

    def _run(
        self, x: AnyArray, dy: AnyArray, argmax: AnyArray, *, include_batch_in_index: int = 0, **_: Any
    ) -> tuple[AnyArray]:
        image = 0 if include_batch_in_index else math.prod(x.shape[1:])
        first = (np.arange(len(x)) * image).reshape(-1, *[1] * (x.ndim - 1))
        return (gradient_of(x, dy, argmax + first),)


class _AverageGradient(OpRun):
    """AvgPoolGrad(orig_input_shape, dy) and AvgPool3DGrad."""

    def _run(self, shape: AnyArray, dy: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        return (average_pool_gradient(shape.tolist(), dy, **attributes),)


_KERNELS: dict[str, type[OpRun]] = {
    "AvgPoolGrad": _AverageGradient,
    "AvgPool3DGrad": _AverageGradient,
    "MaxPoolGrad": _Gradient,
    "MaxPool3DGrad": _Gradient,
    "MaxPoolGradV2": _GradientV2,
    "MaxPoolGradWithArgmax": _GradientWithArgmax,
}

OPERATORS = tuple(
    type(name, (kernel,), {"op_domain": domain})
    for name, kernel in _KERNELS.items()
    for domain in ("ai.onnx.converters.tensorflow", "")
    if (name, domain) != ("MaxPoolGrad", "")
)
"""In the default domain MaxPoolGrad is onnxruntime's operator too, whose kernel calls `pool_gradient`."""
