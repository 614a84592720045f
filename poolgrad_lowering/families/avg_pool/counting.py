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

from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.windows.aclnn import AclnnWindow
from poolgrad_lowering.windows.axis import AxisWindow

_GLOBAL = 10
"""The least size, on both axes, of one window over a whole plane that aclnnAvgPool2dBackward divides by kH·kW."""

_LARGEST_DIVISOR = 1 << 24
"""The largest divisor of all windows: float32, in which Ascend's operators divide, holds every integer up to it."""


@dataclass(frozen=True)
class AveragedAxis:
    """One spatial axis: ONNX's windows, Ascend's, and the sizes of x and of the output, None if symbolic."""

    window: AxisWindow
    chosen: AclnnWindow
    extent: int | None
    count: int | None

    def counts(self, *, padded: bool) -> list[int]:
        """Return the divisors of the pool's windows, where sizes are known."""
        window, size = self.window, self.extent or 0
        low, high = (-window.begin, size + window.end) if padded else (0, size)
        return self._overlaps(window.kernel, window.stride, window.begin, low, high)

    def counted_by_ascend(self, *, padded: bool) -> list[int]:
        """Return the divisors of Ascend's windows, over the canvas if there is one, where sizes are known."""
        chosen = self.chosen
        size = chosen.before + (self.extent or 0) + chosen.after
        low, high = (-chosen.pad, size + chosen.pad) if padded else (0, size)
        return self._overlaps(chosen.kernel, chosen.stride, chosen.pad, low, high)

    def _overlaps(self, kernel: int, stride: int, begin: int, low: int, high: int) -> list[int]:
        """Return how many of the positions from `low` up to, not including, `high` each window has."""
        starts = (number * stride - begin for number in range(self.count or 0))
        return [max(min(start + kernel, high) - max(start, low), 0) for start in starts]

    @property
    def is_known(self) -> bool:
        """Whether both sizes are numbers."""
        return self.extent is not None and self.count is not None


@dataclass(frozen=True)
class Counted:
    """How an operator counts the elements of windows: with the padding or without; not at all if `divisor` is not 0.

    If `divisors` is not empty, it has the divisor of each window by axis, and the gradient has to be divided by their
    products before: the operator's divisor is 1.
    """

    padded: bool
    divisor: int = 0
    divisors: tuple[tuple[int, ...], ...] = ()


def counted(axes: Sequence[AveragedAxis], *, padded: bool, divisor: int) -> Counted:
    """Return how the operator has to count. Raises `Refuse` if a symbolic size decides, or `divisor` is large.

    `padded` and `divisor` are those of the pool: whether the padding counts, and the divisor of all windows if not 0.
    """
    if divisor > _LARGEST_DIVISOR:
        what = "the divisor of all windows is {}; a divisor of Ascend's operators is at most {}"
        raise Refuse(Code.AVERAGE_DIVISORS, what, divisor, _LARGEST_DIVISOR)
    if divisor:
        return Counted(padded, divisor)
    known = [axis for axis in axes if axis.is_known]
    if _is_divided_by_kernel(axes) and not padded:
        return Counted(padded, math.prod(axis.counts(padded=False)[0] for axis in axes))
    for mode in (padded, not padded):
        own = mode is padded or len(known) == len(axes)
        if own and all(axis.counts(padded=padded) == axis.counted_by_ascend(padded=mode) for axis in known):
            return Counted(mode)
    if len(known) < len(axes):
        what = "the number of elements that a window counts depends on a symbolic size"
        raise Refuse(Code.SYMBOLIC_CANVAS, what)
    divisors = tuple(tuple(axis.counts(padded=padded)) for axis in axes)
    if all(len(set(each)) == 1 for each in divisors):
        return Counted(padded, math.prod(each[0] for each in divisors))
    return Counted(padded, 1, divisors)


def _is_divided_by_kernel(axes: Sequence[AveragedAxis]) -> bool:
    """Whether CANN takes the pool for one over whole planes, and divides by the kernel although padding is in it.

    It looks at the sizes of self and of the kernel alone (aclnnAvgPool2dBackward, the check of a global pool).
    """
    sizes = [None if axis.extent is None else axis.chosen.before + axis.extent + axis.chosen.after for axis in axes]
    return (
        len(axes) == 2
        and all(axis.count == 1 and axis.chosen.kernel == size for axis, size in zip(axes, sizes, strict=True))
        and min(axis.chosen.kernel for axis in axes) >= _GLOBAL
        and any(axis.chosen.pad for axis in axes)
    )
