# SPDX-License-Identifier: Apache-2.0

"""The attributes that a gradient of an average pool has for its function body, in addition to Ascend's.

The body is a ConvTranspose over the planes of the gradient, and a Conv that counts the elements of each window. Both
take their windows from these attributes by reference. They have one entry for each spatial axis of x, and pads of the
begins, then of the ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poolgrad_lowering.model.windows import AxisWindow

KERNEL, STRIDES, PADS, OUTPUT_PADDING, COUNTED, UNCOUNTED, DIVISOR = (
    f"onnx_{name}"
    for name in ("kernel_shape", "strides", "pads", "output_padding", "counted_pads", "uncounted_pads", "divisor")
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


def difference(values: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return a text on the first attribute for the body that is not as Ascend's attributes say, or None."""
    for name in (KERNEL, STRIDES, PADS, OUTPUT_PADDING, COUNTED, UNCOUNTED, DIVISOR):
        found = list(values[name]) if isinstance(values[name], tuple) else values[name]
        if found != expected[name]:
            return f"{name} is {found}, and by Ascend's attributes it is {expected[name]}"
    return None
