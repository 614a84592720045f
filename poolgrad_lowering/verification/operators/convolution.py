# SPDX-License-Identifier: Apache-2.0

"""ConvTranspose of one plane to one plane, as bodies of average pools have it, for all planes at once.

onnx's reference evaluator computes one image after the other. Any other ConvTranspose is left to it.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OnnxConvTranspose

from poolgrad_lowering.verification.arrays import AnyArray


class ConvTranspose(OnnxConvTranspose):
    """ConvTranspose."""

    def _run(self, x: AnyArray, w: AnyArray, b: AnyArray | None = None, **attributes: Any) -> Any:  # type: ignore[override]
        given = {name: value for name, value in attributes.items() if value is not None}
        is_planar = w.shape[:2] == (x.shape[1], 1) and given.get("group", 1) == x.shape[1] and b is None
        if not is_planar or given.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in given:
            return super()._run(x, w, b, **attributes)  # type: ignore[no-untyped-call]
        rank, sizes = x.ndim - 2, x.shape[2:]
        strides, dilations = (list(given.get(name, [1] * rank)) for name in ("strides", "dilations"))
        pads, more = list(given.get("pads", [0] * 2 * rank)), list(given.get("output_padding", [0] * rank))
        rows = list(zip(sizes, w.shape[2:], strides, dilations, more, strict=True))
        whole = [stride * (size - 1) + dilation * (taps - 1) + 1 + end for size, taps, stride, dilation, end in rows]
        y = np.zeros((*x.shape[:2], *whole), x.dtype)
        planes = (slice(None), slice(None))
        for tap in itertools.product(*map(range, w.shape[2:])):
            spans = tuple(
                slice(number * dilation, number * dilation + stride * (size - 1) + 1, stride)
                for number, (size, _, stride, dilation, _) in zip(tap, rows, strict=True)
            )
            place = (slice(None), 0)
            weights = w[place + tap].reshape(-1, *[1] * rank)
            y[planes + spans] += x * weights
        ends = zip(pads[:rank], pads[rank:], whole, strict=True)
        kept = tuple(slice(begin, size - end) for begin, end, size in ends)
        return (y[planes + kept],)


OPERATORS = (ConvTranspose,)
