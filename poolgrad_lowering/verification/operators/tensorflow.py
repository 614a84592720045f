# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradients of max pools as tf2onnx exports them, by TensorFlow's operator definitions.

They recompute the maxima from x; of equal ones the first in row-major order gets the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.operators.pool import (
    Array,
    Pads,
    gradient_of,
    max_pool,
    plane_starts,
    same_pads,
)

DOMAIN = "ai.onnx.converters.tensorflow"


def pool_gradient(
    x: Array,
    dy: Array,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    **_: Any,
) -> Array:
    """Return dx of MaxPoolGrad and MaxPool3DGrad; x, dy and dx have the layout `data_format`."""
    channels = data_format.index("C")
    spatial = [axis for axis in range(x.ndim) if axis not in (0, channels)]
    planes: Array = np.moveaxis(x, channels, 1)
    grad: Array = np.moveaxis(dy, channels, 1)
    kernel, steps, ones = [ksize[a] for a in spatial], [strides[a] for a in spatial], [1] * len(spatial)
    pads: Pads = [0] * len(spatial), [0] * len(spatial)
    if padding == "SAME":
        pads = same_pads(planes.shape[2:], kernel, steps, ones, upper=True)
    elif padding == "EXPLICIT":
        begins, ends = ([explicit_paddings[2 * axis + end] for axis in spatial] for end in (0, 1))
        pads = begins, ends
    positions = max_pool(planes, kernel, steps, ones, pads)[1]
    dx = gradient_of(planes, grad, positions + plane_starts(planes.shape))
    moved: Array = np.moveaxis(dx, 1, channels)
    return moved


class MaxPoolGrad(OpRun):
    """MaxPoolGrad(x, y, dy) in the domain of tf2onnx."""

    op_domain = DOMAIN

    def _run(self, x: Array, _: Array, dy: Array, **attributes: Any) -> tuple[Array]:
        return (pool_gradient(x, dy, **attributes),)


class MaxPoolGradV2(OpRun):
    """MaxPoolGradV2(x, y, dy, ksize, strides)."""

    op_domain = DOMAIN

    def _run(self, x: Array, _: Array, dy: Array, ksize: Array, strides: Array, **attributes: Any) -> tuple[Array]:
        return (pool_gradient(x, dy, ksize=ksize.tolist(), strides=strides.tolist(), **attributes),)


class MaxPoolGradWithArgmax(OpRun):
    """MaxPoolGradWithArgmax(x, dy, argmax), with positions in an (H, W, C) image or in the whole batch."""

    op_domain = DOMAIN

    def _run(self, x: Array, dy: Array, argmax: Array, *, include_batch_in_index: int = 0, **_: Any) -> tuple[Array]:
        image = 0 if include_batch_in_index else math.prod(x.shape[1:])
        first = (np.arange(len(x)) * image).reshape(-1, *[1] * (x.ndim - 1))
        return (gradient_of(x, dy, argmax + first),)


def _also_by_default(operator: type[OpRun], name: str = "") -> type[OpRun]:
    return type(name or operator.__name__, (operator,), {"op_domain": ""})


OPERATORS = (
    MaxPoolGrad,
    MaxPoolGradV2,
    MaxPoolGradWithArgmax,
    type("MaxPool3DGrad", (MaxPoolGrad,), {}),
    _also_by_default(MaxPoolGrad, "MaxPool3DGrad"),
    _also_by_default(MaxPoolGradV2),
    _also_by_default(MaxPoolGradWithArgmax),
)
