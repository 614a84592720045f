# SPDX-License-Identifier: Apache-2.0

"""What the operators of a target support, and how the windows of a spatial axis become those that aclnn takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.dialect import OPS, TYPES
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, has_empty_window, on_canvas
from poolgrad_lowering.dialect.op import VALUE
from poolgrad_lowering.dialect.targets import Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes


def check_lowerable(gradient: Gradient, typed: Value) -> None:
    """Raise `Refuse` if no operator of Ascend has the gradient's number of spatial axes or its element type.

    `typed` is the value whose element type the message names.
    """
    rank = len(gradient.x_shape) - 2
    if not 1 <= rank <= 3:
        raise Refuse(Code.SPATIAL_RANK, "the pool has {} spatial axes; Ascend supports 1 to 3", rank)
    if gradient.element_type not in TYPES[VALUE]:
        what = "'{}' is {}; Ascend supports float32, float16 and bfloat16"
        raise Refuse(Code.DTYPE, what, typed.name, type_name(gradient.element_type))


def operator_for(gradient: Gradient, target: Target, operators: Sequence[str]) -> str:
    """Return the first operator for x's rank that the target has for the gradient's element type.

    If it has none for that type, the first that it has, and if it has none at all, the last one.
    """
    able = [name for name in operators if len(gradient.x_shape) in OPS[name].ranks]
    types = gradient.element_type, None
    return next((name for one in types for name in able if target.supports(name, one)), able[-1])


def supported(operator: str, gradient: Gradient, typed: Value, target: Target) -> Support:
    """Return what the target's operator supports. Raises `Refuse` if it has none, or not for the element type.

    `typed` is the value whose element type the message names.
    """
    support = target.operators.get(operator)
    if support is None:
        raise Refuse(Code.TARGET, "{} has no {}", target.title, operator)
    if gradient.element_type not in support.element_types:
        able = " and ".join(map(type_name, sorted(support.element_types)))
        found = type_name(gradient.element_type)
        raise Refuse(Code.DTYPE, "'{}' is {}; {} on {} supports {}", typed.name, found, operator, target.title, able)
    return support


def inexpressible(operator: str, gradient: Gradient) -> Refuse:
    """Return the refusal of an operator that has no such windows."""
    what = "{} cannot express the windows of a pool of {} to {}"
    return Refuse(Code.OPERATOR_WINDOWS, what, operator, Shown(gradient.x_shape), Shown(gradient.pooled_shape))


class PooledAxis(NamedTuple):
    """One spatial axis: ONNX's windows, the windows over x that can stand for them if aclnn takes these, and sizes.

    `extent` and `pooled` are the sizes of x and of the output, None if symbolic.
    """

    number: int
    window: AxisWindow
    over_x: AclnnWindow
    extent: int | None
    pooled: int | None

    @property
    def fits_every_size(self) -> bool:
        """Whether aclnn takes the windows over x, and makes as many as the pool for every size if it rounds down."""
        chosen, window = self.over_x, self.window
        same_span = 2 * chosen.pad - chosen.kernel == window.begin + window.end - window.extent
        return chosen.is_legal() and same_span

    def direct(self, *, ceil: bool, onnx_ceil: bool) -> AclnnWindow | None:
        """Return the windows over x, with rounding `ceil`; None if aclnn does not take them, or makes more or fewer.

        `onnx_ceil` is the rounding of the pool.
        """
        if self.extent is not None and self.pooled is not None:
            is_equal = self.over_x.is_legal() and self.over_x.output_size(self.extent, ceil=ceil) == self.pooled
            return self.over_x if is_equal else None
        # For a symbolic size the rounding must be ONNX's; then counts agree with floor, or with ceil and equal pads.
        is_open = ceil == onnx_ceil and (not ceil or self.window.begin == self.window.end)
        return self.over_x if self.fits_every_size and is_open else None

    def canvas(self, *, ceil: bool) -> AclnnWindow | None:
        """Return the windows on a canvas; None if a size is symbolic or the output size differs."""
        if self.extent is None or self.pooled is None:
            return None
        window = on_canvas(self.window, self.extent, self.pooled)
        return window if window.output_size(self.extent, ceil=ceil) == self.pooled else None

    def check(self) -> None:
        """Raise `Refuse` if there is no window, or a window contains no element or starts in the padding."""
        window = self.window
        if self.extent is not None and window.begin + self.extent + window.end < window.extent:
            what = "on spatial axis {} no window fits into {} elements"
            raise Refuse(Code.OUTPUT_SIZE, what, self.number, self.extent)
        if self.extent is None or self.pooled is None:
            return
        if window.starts_behind(self.pooled - 1, self.extent):
            what = "on spatial axis {} the last of {} windows starts in the padding after the input"
            raise Refuse(Code.WINDOW_IN_PADDING, what, self.number, self.pooled)
        if has_empty_window(window, self.extent, self.pooled):
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
        if axis.extent is not None and axis.pooled is not None:
            continue
        if not axis.fits_every_size:
            return Refuse(Code.SYMBOLIC_CANVAS, "pads {} need a canvas, but a size is symbolic", pads)
        if onnx_ceil and pads[0] != pads[1]:
            return Refuse(Code.SYMBOLIC_CEIL, "ceil_mode with pads {} on an axis of symbolic size", pads)
    what = "no rounding mode gives the output sizes {} for the input sizes {} on all axes"
    return Refuse(Code.OUTPUT_SIZE, what, [axis.pooled for axis in axes], [axis.extent for axis in axes])
