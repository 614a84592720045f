# SPDX-License-Identifier: Apache-2.0

"""MaxPool and onnxruntime training's MaxPoolGrad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.operators import tensorflow
from poolgrad_lowering.verification.operators.pool import (
    Pads,
    max_pool,
    plane_starts,
    same_pads,
    scatter_gradient,
)


class MaxPool(OpRun):
    """MaxPool; onnx's own gives wrong Indices if all strides and dilations are 1."""

    op_domain = ""

    def _run(
        self,
        x: AnyArray,
        *,
        kernel_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        auto_pad: str = "NOTSET",
        ceil_mode: int = 0,
        storage_order: int = 0,
    ) -> tuple[AnyArray, ...]:
        rank = len(kernel_shape)
        steps, spacing = strides or [1] * rank, dilations or [1] * rank
        both = list(pads or [0] * 2 * rank)
        padding: Pads = both[:rank], both[rank:]
        if auto_pad.startswith("SAME"):
            upper = auto_pad == "SAME_UPPER"
            padding = same_pads(x.shape[2:], kernel_shape, steps, spacing, upper=upper)
        elif auto_pad == "VALID":
            padding = [0] * rank, [0] * rank
        y, positions = max_pool(x, kernel_shape, steps, spacing, padding, ceil=bool(ceil_mode))
        if storage_order:
            coordinates = np.unravel_index(positions, x.shape[2:])
            positions = np.ravel_multi_index(coordinates, x.shape[2:], order="F")
        return (y, positions + plane_starts(x.shape))[: len(self.onnx_node.output)]


class MaxPoolGrad(OpRun):
    """MaxPoolGrad(dY, Indices) with dX's shape as a third input, which the evaluator adds.

    TensorFlow's MaxPoolGrad(x, y, dy) has the same name and domain, and a `ksize`.
    """

    op_domain = ""

    def _run(self, first: AnyArray, second: AnyArray, third: AnyArray, **attributes: Any) -> tuple[AnyArray]:
        if "ksize" in attributes:
            return (tensorflow.pool_gradient(first, third, **attributes),)
        return (scatter_gradient(third.tolist(), first, second),)


OPERATORS = (MaxPool, MaxPoolGrad)
