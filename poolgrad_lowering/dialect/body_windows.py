# SPDX-License-Identifier: Apache-2.0

"""The window attributes that an operator of the dialect has for its function body, in addition to Ascend's.

The body of a max pool is ONNX's MaxPool. That of an average pool's gradient is a ConvTranspose over the planes of the
gradient, and a Conv that counts the elements of each window. They take their windows from these attributes by
reference. They have one entry for each spatial axis of x, and pads of the begins, then of the ends, while Ascend's have
a fixed number of entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poolgrad_lowering.model.windows import AxisWindow

KERNEL, STRIDES, PADS, DILATIONS, CEIL = (
    f"onnx_{name}" for name in ("kernel_shape", "strides", "pads", "dilations", "ceil_mode")
)
OUTPUT_PADDING, COUNTED, UNCOUNTED, DIVISOR = (
    f"onnx_{name}" for name in ("output_padding", "counted_pads", "uncounted_pads", "divisor")
)


def average_window(
    windows: Sequence[AxisWindow], *, ceil: bool, count_include_pad: bool, divisor: int
) -> dict[str, int | float | str | list[int]]:
    """Return the attributes for windows without dilation. `divisor` is that of all windows, 0 if each one is counted.

    The ConvTranspose reaches the end of x and beyond: what is beyond is cut off, so it has no pads there. With `ceil`,
    a window may end up to stride − 1 elements behind the padding; no element counts there.
    """
    begins, ends = [window.begin for window in windows], [window.end for window in windows]
    beyond = [window.stride - 1 if ceil else 0 for window in windows]
    none = [0] * len(windows)
    reached = [end + more for end, more in zip(ends, beyond, strict=True)]
    return {
        KERNEL: [window.kernel for window in windows],
        STRIDES: [window.stride for window in windows],
        PADS: begins + none,
        OUTPUT_PADDING: [window.stride - 1 for window in windows],
        COUNTED: begins + ends if count_include_pad else none + none,
        UNCOUNTED: none + beyond if count_include_pad else begins + reached,
        DIVISOR: float(divisor),
    }


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
