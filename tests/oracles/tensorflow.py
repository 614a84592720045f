# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's max-pool gradient operators as operators of onnx's reference evaluator, from their definitions.

Sources: TensorFlow's operator definitions, and the notes on padding of `tf.nn`. Among equal maxima the first one in
row-major order gets the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun

from tests.oracles.gradient import pool_gradient_of
from tests.oracles.pooling import max_pool_indices, same_pads

Array = npt.NDArray[Any]

DOMAIN = "ai.onnx.converters.tensorflow"


def max_pool_grad(
    x: Array,
    dy: Array,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Array:
    """Return dx of TensorFlow's MaxPoolGrad or MaxPool3DGrad; `x`, `dy` and the result in the layout `data_format`."""
    channel = data_format.index("C")
    spatial = [axis for axis in range(x.ndim) if axis not in (0, channel)]
    x, dy = np.moveaxis(x, channel, 1), np.moveaxis(dy, channel, 1)
    kernel, steps = [ksize[axis] for axis in spatial], [strides[axis] for axis in spatial]
    pads = [0] * 2 * len(spatial)
    if padding == "SAME":
        pads = same_pads(x.shape[2:], kernel, steps, upper=True)
    elif padding == "EXPLICIT":
        pads = [explicit_paddings[2 * axis + end] for end in (0, 1) for axis in spatial]
    dx = pool_gradient_of(x, dy, max_pool_indices(x, kernel, steps, pads))
    return np.moveaxis(dx, 1, channel)


def max_pool_grad_with_argmax(x: Array, dy: Array, argmax: Array, *, include_batch_in_index: bool) -> Array:
    """Return dx of TensorFlow's MaxPoolGradWithArgmax, all (N, H, W, C)."""
    batch = 0 if include_batch_in_index else np.arange(len(x)).reshape(-1, 1, 1, 1) * x[0].size
    return pool_gradient_of(x, dy, argmax + batch)


class MaxPoolGrad(OpRun):
    """MaxPoolGrad(x, y, dy) in the converter's own domain."""

    op_domain = DOMAIN

    def _run(self, x: Array, _: Array, dy: Array, **attributes: Any) -> tuple[Array]:
        """Return dx."""
        return (max_pool_grad(x, dy, **attributes),)


class MaxPoolGradV2(OpRun):
    """MaxPoolGradV2(x, y, dy, ksize, strides)."""

    op_domain = ""

    def _run(self, x: Array, _: Array, dy: Array, *windows: Array, **attributes: Any) -> tuple[Array]:
        """Return dx."""
        ksize, strides = (array.tolist() for array in windows)
        return (max_pool_grad(x, dy, ksize=ksize, strides=strides, **attributes),)


class MaxPool3DGrad(OpRun):
    """MaxPool3DGrad(x, y, dy)."""

    op_domain = ""

    def _run(self, x: Array, _: Array, dy: Array, **attributes: Any) -> tuple[Array]:
        """Return dx; `TInput` is the element type, which is x's."""
        return (max_pool_grad(x, dy, **{name: value for name, value in attributes.items() if name != "TInput"}),)


class MaxPoolGradWithArgmax(OpRun):
    """MaxPoolGradWithArgmax(x, dy, argmax)."""

    op_domain = ""

    def _run(self, x: Array, dy: Array, argmax: Array, *, include_batch_in_index: int = 0, **_: Any) -> tuple[Array]:
        """Return dx; the windows are in argmax."""
        return (max_pool_grad_with_argmax(x, dy, argmax, include_batch_in_index=bool(include_batch_in_index)),)


OPERATORS = [MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad, MaxPoolGradWithArgmax]
