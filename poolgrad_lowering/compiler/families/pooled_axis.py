# SPDX-License-Identifier: Apache-2.0

"""The spatial axes of a pool, and how their windows become those that aclnn takes, whichever family the pool is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, has_empty_window, on_canvas
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.windows.axis import AxisWindow
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes


@dataclass(frozen=True)
class PooledAxis:
    """One spatial axis: ONNX's windows, the windows over x that can stand for them if aclnn takes these, and sizes.

    `extent` and `count` are the sizes of x and of the output, None if symbolic.
    """

    number: int
    window: AxisWindow
    over_x: AclnnWindow
    extent: int | None
    count: int | None

    @property
    def fits_every_size(self) -> bool:
        """Whether aclnn takes the windows over x, and rounded down there are as many of them for every size."""
        chosen, window = self.over_x, self.window
        same_span = 2 * chosen.pad - chosen.kernel == window.begin + window.end - window.extent
        return chosen.is_legal() and same_span

    def direct(self, *, ceil: bool, onnx_ceil: bool) -> AclnnWindow | None:
        """Return the windows over x, with rounding `ceil`; None if aclnn does not take them, or makes more or fewer.

        `onnx_ceil` is the rounding of the pool.
        """
        if self.extent is not None and self.count is not None:
            is_equal = self.over_x.is_legal() and self.over_x.output_size(self.extent, ceil=ceil) == self.count
            return self.over_x if is_equal else None
        # For a symbolic size the rounding must be ONNX's; then counts agree with floor, or with ceil and equal pads.
        is_open = ceil == onnx_ceil and (not ceil or self.window.begin == self.window.end)
        return self.over_x if self.fits_every_size and is_open else None

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
        if window.starts_behind(self.count - 1, self.extent):
            what = "on spatial axis {} the last of {} windows starts in the padding after the input"
            raise Refuse(Code.WINDOW_IN_PADDING, what, self.number, self.count)
        if has_empty_window(window, self.extent, self.count):
            raise Refuse(Code.EMPTY_WINDOW, "on spatial axis {} a window contains no element", self.number)


def legal_windows(
    gradient: Gradient, pool: PoolAttributes, over_x: Callable[[int, AxisWindow], AclnnWindow]
) -> tuple[list[PooledAxis], list[AclnnWindow], bool]:
    """Return the spatial axes of a gradient, their windows as aclnn takes them, and whether counts are rounded up.

    `over_x` returns the windows over x that can stand for those of `pool` on the axis of a number. Tries the pool's own
    rounding, then the other; then both with a canvas. Raises `Refuse` if there are no such windows.
    """
    axes = list(_checked_axes(gradient, pool, over_x))
    for with_canvas, ceil in product((False, True), (pool.ceil, not pool.ceil)):
        found = [
            axis.direct(ceil=ceil, onnx_ceil=pool.ceil) or (axis.canvas(ceil=ceil) if with_canvas else None)
            for axis in axes
        ]
        windows = [window for window in found if window is not None]
        if len(windows) == len(axes):
            return axes, windows, ceil
    raise _no_windows(axes, pool.ceil)


def margins(windows: Sequence[AclnnWindow]) -> tuple[tuple[int, int], ...]:
    """Return the padding (before, after) of x on each axis of the canvas; empty if there is no canvas."""
    found = tuple((window.before, window.after) for window in windows)
    return found if any(map(any, found)) else ()


def _checked_axes(
    gradient: Gradient, pool: PoolAttributes, over_x: Callable[[int, AxisWindow], AclnnWindow]
) -> Iterator[PooledAxis]:
    for number, (extent, count) in enumerate(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)):
        window = pool.axis(number, extent)
        if window is None:
            what = "auto_pad={} on spatial axis {} of symbolic size {}"
            raise Refuse(Code.AUTO_PAD_SYMBOLIC, what, pool.auto_pad, number, extent)
        axis = PooledAxis(number, window, over_x(number, window), extent.static, count.static)
        axis.check()
        yield axis


def _no_windows(axes: Sequence[PooledAxis], onnx_ceil: bool) -> Refuse:
    """Return the reason why no rounding mode legalizes all axes."""
    for axis in axes:
        pads = (axis.window.begin, axis.window.end)
        if axis.extent is not None and axis.count is not None:
            continue
        if not axis.fits_every_size:
            return Refuse(Code.SYMBOLIC_CANVAS, "pads {} need a canvas, but a size is symbolic", pads)
        if onnx_ceil and pads[0] != pads[1]:
            return Refuse(Code.SYMBOLIC_CEIL, "ceil_mode with pads {} on an axis of symbolic size", pads)
    what = "no rounding mode gives the output sizes {} for the input sizes {} on all axes"
    return Refuse(Code.OUTPUT_SIZE, what, [axis.count for axis in axes], [axis.extent for axis in axes])
