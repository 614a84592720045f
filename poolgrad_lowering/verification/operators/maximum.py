# SPDX-License-Identifier: Apache-2.0

"""ReduceMax, of +0.0 and −0.0 with the first: ONNX does not say which one, and numpy takes either."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.arrays import AnyArray


class ReduceMax(OpRun):
    """ReduceMax, with the axes as an attribute or as an input. NaN is the maximum."""

    op_domain = ""

    def _run(
        self,
        data: AnyArray,
        axes: Sequence[int] | AnyArray | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> tuple[AnyArray]:
        named = [] if axes is None else [int(axis) % data.ndim for axis in axes]
        if not named and noop_with_empty_axes:
            return (data,)
        reduced = sorted(named) or list(range(data.ndim))
        kept = [axis for axis in range(data.ndim) if axis not in reduced]
        count = math.prod(data.shape[axis] for axis in reduced)
        windows = data.transpose(kept + reduced).reshape(*(data.shape[axis] for axis in kept), count)
        maxima = np.take_along_axis(windows, windows.argmax(axis=-1, keepdims=True), axis=-1)
        shape = [1 if axis in reduced else size for axis, size in enumerate(data.shape) if keepdims or axis in kept]
        return (maxima.reshape(shape),)


OPERATORS = (ReduceMax,)
