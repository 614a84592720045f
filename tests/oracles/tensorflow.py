# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's max-pool gradient operators as operators of onnx's reference evaluator, from their definitions.

Sources: TensorFlow's operator definitions, and the notes on padding of `tf.nn`. Among equal maxima the first one in
row-major order gets the gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from tests.oracles.as_operator import as_operator
from tests.oracles.pooling import Array, check_gradient_type, least_padding, pool_gradient


def max_pool_grad(
    x: Array,
    dy: Array,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    **others: Any,
) -> Array:
    """Return dx of TensorFlow's MaxPoolGrad or MaxPool3DGrad: all lists have an entry for every axis, in x's layout.

    So the layout (`data_format`) says nothing more; batch and channels have windows of 1.
    """
    check_gradient_type(x, dy)
    windows = []
    for axis, (size, kernel, stride) in enumerate(zip(x.shape, ksize, strides, strict=True)):
        total = least_padding(size, kernel, stride) if padding == "SAME" else 0
        pads = [total // 2, total - total // 2]
        if padding == "EXPLICIT":
            pads = others["explicit_paddings"][2 * axis : 2 * axis + 2]
        starts = range(-pads[0], size + pads[1] - kernel + 1, stride)
        windows.append([range(max(start, 0), min(start + kernel, size)) for start in starts])
    if dy.shape != tuple(map(len, windows)):
        raise ValueError(f"dy has shape {dy.shape}, the windows {tuple(map(len, windows))}")
    numbers = np.arange(x.size).reshape(x.shape)
    indices = np.empty(dy.shape, np.int64)
    for place, box in zip(np.ndindex(dy.shape), itertools.product(*windows), strict=True):
        best, *rest = itertools.product(*box)
        for element in rest:
            if x[element] > x[best]:
                best = element
        indices[place] = numbers[best]
    return pool_gradient(x.shape, dy, indices)


def _max_pool_grad(x: Array, _: Array, dy: Array, *windows: Array, **attributes: Any) -> Array:
    """MaxPoolGrad(x, y, dy), MaxPool3DGrad with the element type as `TInput`, MaxPoolGradV2(…, ksize, strides)."""
    of_v2 = {name: array.tolist() for name, array in zip(("ksize", "strides"), windows, strict=False)}
    return max_pool_grad(x, dy, **attributes, **of_v2)


def _max_pool_grad_with_argmax(
    x: Array, dy: Array, argmax: Array, *, include_batch_in_index: int = 0, **_: Any
) -> Array:
    """MaxPoolGradWithArgmax(x, dy, argmax), all (N, H, W, C)."""
    check_gradient_type(x, dy)
    if include_batch_in_index:
        return pool_gradient(x.shape, dy, argmax)
    return np.stack([pool_gradient(x.shape[1:], *image) for image in zip(dy, argmax, strict=True)])


OPERATORS: list[type[OpRun]] = [
    as_operator("MaxPoolGrad", "ai.onnx.converters.tensorflow", _max_pool_grad),
    *(as_operator(name, "", _max_pool_grad) for name in ("MaxPool3DGrad", "MaxPoolGradV2")),
    as_operator("MaxPoolGradWithArgmax", "", _max_pool_grad_with_argmax),
]
