# SPDX-License-Identifier: Apache-2.0

"""The spatial axes of a pool, and how their windows become those that aclnn takes, whichever family the pool is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.gradient import Gradient
from poolgrad_lowering.windows.aclnn import AclnnWindow, has_empty_window, on_canvas, starts_in_padding
from poolgrad_lowering.windows.axis import AxisWindow
from poolgrad_lowering.windows.onnx_pool import PoolAttributes

A = TypeVar("A", bound="PooledAxis")


@dataclass(frozen=True)
class PooledAxis(ABC):
    """One spatial axis: ONNX's windows, and the sizes of x and of the output, None if symbolic."""

    number: int
    window: AxisWindow
    extent: int | None
    count: int | None

    @abstractmethod
    def direct(self, *, ceil: bool, onnx_ceil: bool) -> AclnnWindow | None:
        """Return the windows as aclnn takes them over x, with rounding `ceil`; None if it does not.

        `onnx_ceil` is the rounding of the pool.
        """

    def canvas(self, *, ceil: bool) -> AclnnWindow | None:
        """Return the windows on a canvas; None if a size is symbolic or the output size differs."""
        if self.extent is None or self.count is None:
            return None
        window = on_canvas(self.window, self.extent, self.count)
        return window if window.output_size(self.extent, ceil=ceil) == self.count else None

    def check(self) -> None:
        """Raise `Refuse` if there is no window, or a window contains no element or starts in the padding."""
        window = self.window
        if self.extent is not None and window.begin + self.extent + window.end < window.extent:
            what = "on spatial axis {} no window fits into {} elements"
            raise Refuse(Code.OUTPUT_SIZE, what, self.number, self.extent)
        if self.extent is None or self.count is None:
            return
        if starts_in_padding(window, self.extent, self.count):
            what = "on spatial axis {} the last of {} windows starts in the padding after the input"
            raise Refuse(Code.WINDOW_IN_PADDING, what, self.number, self.count)
        if has_empty_window(window, self.extent, self.count):
            raise Refuse(Code.EMPTY_WINDOW, "on spatial axis {} a window contains no element", self.number)


def checked_axes(kind: type[A], gradient: Gradient, pool: PoolAttributes) -> list[A]:
    """Return the spatial axes of a gradient with the windows of `pool`. Raises `Refuse` for what none can have."""
    axes = []
    for number, (extent, count) in enumerate(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)):
        window = pool.axis(number, extent)
        if window is None:
            what = "auto_pad={} on spatial axis {} of symbolic size {}"
            raise Refuse(Code.AUTO_PAD_SYMBOLIC, what, pool.auto_pad, number, extent)
        axis = kind(number, window, extent.static, count.static)
        axis.check()
        axes.append(axis)
    return axes


def legalized(axes: Sequence[PooledAxis], onnx_ceil: bool) -> tuple[list[AclnnWindow], bool] | None:
    """Return the windows of all axes and one rounding mode, None if there are none.

    Tries the pool's own rounding, then the other; then both with a canvas.
    """
    for with_canvas, ceil in product((False, True), (onnx_ceil, not onnx_ceil)):
        found = [
            axis.direct(ceil=ceil, onnx_ceil=onnx_ceil) or (axis.canvas(ceil=ceil) if with_canvas else None)
            for axis in axes
        ]
        windows = [window for window in found if window is not None]
        if len(windows) == len(axes):
            return windows, ceil
    return None


def no_rounding(axes: Sequence[PooledAxis]) -> Refuse:
    """Return the refusal of windows that no rounding mode makes as many as the output has elements."""
    what = "no rounding mode gives the output sizes {} for the input sizes {} on all axes"
    return Refuse(Code.OUTPUT_SIZE, what, [axis.count for axis in axes], [axis.extent for axis in axes])


def needs_canvas(pads: tuple[int, int]) -> Refuse:
    """Return the refusal of windows over a symbolic size whose padding aclnn does not take."""
    return Refuse(Code.SYMBOLIC_CANVAS, "pads {} need a canvas, but a size is symbolic", pads)
