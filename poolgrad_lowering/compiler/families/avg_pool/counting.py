# SPDX-License-Identifier: Apache-2.0

"""The divisors of an average pool's windows, and how an operator of Ascend comes to the same.

Formulas: window o of an axis has the elements from o·s − b up to, not including, o·s − b + k. It counts those of x, or
with count_include_pad those from −b up to x's end plus the end padding (ONNX's AveragePool, version 22; PyTorch;
CANN's documentation of aclnnAvgPool2dBackward, whose padding is the same at both ends).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.compiler.families.shared.legality import PooledAxis
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.windows import AxisWindow

_GLOBAL = 10
"""The least size, on both axes, of one window over a whole plane that aclnnAvgPool2dBackward divides by kH·kW."""

_LARGEST_DIVISOR = 1 << 24
"""The largest divisor of all windows: float32, in which Ascend's operators divide, holds every integer up to it."""


def elements(window: AxisWindow, size: int, count: int, *, padded: bool) -> tuple[int, ...]:
    """Return the divisors of `count` windows over `size` elements of an axis."""
    low, high = (-window.begin, size + window.end) if padded else (0, size)
    starts = (number * window.stride - window.begin for number in range(count))
    return tuple(max(min(start + window.kernel, high) - max(start, low), 0) for start in starts)


@dataclass(frozen=True)
class Counted:
    """How an operator counts the elements of windows: with the padding or without; not at all if `divisor` is not 0.

    If `divisors` is not empty, it has the divisor of each window by axis, and the gradient has to be divided by their
    products before: the operator's divisor is 1.
    """

    padded: bool
    divisor: int = 0
    divisors: tuple[tuple[int, ...], ...] = ()


def counted(axes: Sequence[PooledAxis], windows: Sequence[AclnnWindow], *, padded: bool, divisor: int) -> Counted:
    """Return how the operator with `windows` has to count. Raises `Refuse` if a symbolic size decides, or `divisor` is
    large.

    `padded` and `divisor` are those of the pool: whether the padding counts, and the divisor of all windows if not 0.
    """
    if divisor > _LARGEST_DIVISOR:
        what = "the divisor of all windows is {}; a divisor of Ascend's operators is at most {}"
        raise Refuse(Code.AVERAGE_DIVISORS, what, divisor, _LARGEST_DIVISOR)
    if divisor:
        return Counted(padded, divisor)
    rows = [(axis, window, axis.extent, axis.count) for axis, window in zip(axes, windows, strict=True)]
    known = [
        (axis.window, window, size, count)
        for axis, window, size, count in rows
        if size is not None and count is not None
    ]
    divisors = tuple(elements(own, size, count, padded=padded) for own, _, size, count in known)
    if _is_divided_by_kernel(axes, windows) and not padded:
        return Counted(padded, math.prod(each[0] for each in divisors))
    for mode in (padded, not padded):
        by_ascend = tuple(
            elements(window.on_axis, window.before + size + window.after, count, padded=mode)
            for _, window, size, count in known
        )
        if divisors == by_ascend and (mode is padded or len(known) == len(axes)):
            return Counted(mode)
    if len(known) < len(axes):
        what = "the number of elements that a window counts depends on a symbolic size"
        raise Refuse(Code.SYMBOLIC_CANVAS, what)
    if all(len(set(each)) == 1 for each in divisors):
        return Counted(padded, math.prod(each[0] for each in divisors))
    return Counted(padded, 1, divisors)


def _is_divided_by_kernel(axes: Sequence[PooledAxis], windows: Sequence[AclnnWindow]) -> bool:
    """Whether CANN takes the pool for one over whole planes, and divides by the kernel although padding is in it.

    It looks at the sizes of self and of the kernel alone (aclnnAvgPool2dBackward, the check of a global pool).
    """
    pairs = zip(axes, windows, strict=True)
    sizes = [(axis.extent or 0) + window.before + window.after for axis, window in pairs]
    return (
        len(axes) == 2
        and sizes == [window.kernel for window in windows]
        and all(axis.count == 1 for axis in axes)
        and min(window.kernel for window in windows) >= _GLOBAL
        and any(window.pad for window in windows)
    )
