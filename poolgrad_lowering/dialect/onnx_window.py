# SPDX-License-Identifier: Apache-2.0

"""The attributes of ONNX's MaxPool that a pool of the dialect has in addition to Ascend's.

The function body of a pool is ONNX's MaxPool, which uses these attributes by reference. They have one entry for each
spatial axis of x, while Ascend's have a fixed number of entries, and separate pads for both ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poolgrad_lowering.model.windows import AxisWindow

KERNEL, STRIDES, PADS, DILATIONS, CEIL = (
    f"onnx_{name}" for name in ("kernel_shape", "strides", "pads", "dilations", "ceil_mode")
)


def onnx_window(
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: tuple[Sequence[int], Sequence[int]],
    dilations: Sequence[int],
    *,
    ceil: bool,
) -> dict[str, int | str | list[int]]:
    """Return the attributes, from lists with one entry per spatial axis of x; `pads` are those before and after it."""
    return {
        KERNEL: list(kernel),
        STRIDES: list(strides),
        PADS: [*pads[0], *pads[1]],
        DILATIONS: list(dilations),
        CEIL: int(ceil),
    }


def window_difference(values: Mapping[str, Any]) -> str | None:
    """Return a text on the first difference between Ascend's and ONNX's window attributes of a pool, or None.

    Compares kernel, stride, begin padding and dilation. The number of windows depends on x and is not compared.
    """
    rank, *others = (len(values[name]) for name in (KERNEL, STRIDES, DILATIONS))
    if not 1 <= rank <= len(values["ksize"]) or others != [rank, rank]:
        return f"{KERNEL}, {STRIDES} and {DILATIONS} have {rank}, {others[0]} and {others[1]} values"
    if len(values[PADS]) != 2 * rank:
        return f"{PADS} has {len(values[PADS])} values, expected {2 * rank}"
    pairs = (("ksize", KERNEL), ("strides", STRIDES), ("pads", PADS), ("dilation", DILATIONS))
    for ascend, onnx in pairs:
        if list(values[ascend][-rank:]) != list(values[onnx][:rank]):
            return f"{ascend} is {list(values[ascend])}, {onnx} is {list(values[onnx])}"
    return None


def onnx_count(values: Mapping[str, Any], axis: int, size: int) -> int:
    """Return the number of windows of ONNX's MaxPool along spatial axis `axis` of x, which has `size` elements."""
    kernel, stride, dilation = (int(values[name][axis]) for name in (KERNEL, STRIDES, DILATIONS))
    begin, end = (int(values[PADS][position]) for position in (axis, len(values[KERNEL]) + axis))
    return AxisWindow(kernel, stride, begin, end, dilation).output_size(size, ceil=bool(values[CEIL]))
