"""Whether a target can run a gradient, and with which operator and windows: a plan, or a reason.

Conditions are those of CANN's operator pages; each has its code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from poolgrad_lowering.analysis.facts import type_name
from poolgrad_lowering.analysis.pool import AxisWindow, PoolAttributes
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.legality.targets import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, Target
from poolgrad_lowering.legality.windows import AclnnWindow, has_empty_window, on_canvas, starts_in_padding, widened

INT32_CODE = 3
"""The `dtype` attribute of MaxPoolGradWithArgmaxV3 for an int32 argmax (aclDataType)."""

_LOWERABLE = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclass(frozen=True)
class LoweredOp:
    """The dialect operator that one gradient or pool becomes, and its attributes.

    `canvas` is the padding (before, after) per spatial axis that x gets first, empty where it needs none.
    """

    name: str
    attributes: dict[str, int | str | list[int]]
    canvas: tuple[tuple[int, int], ...] = ()


def select_op(gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    """The operator for a gradient on a target, or why there is none."""
    rank = len(gradient.x_shape) - 2
    if not 1 <= rank <= 3:
        return refuse(Code.SPATIAL_RANK, "the pool has {} spatial axes; Ascend has 1 to 3", rank)
    if gradient.element_type not in _LOWERABLE:
        return refuse(
            Code.DTYPE,
            "'{}' is {}; Ascend takes float32, float16 and bfloat16",
            gradient.x.name,
            type_name(gradient.element_type),
        )
    if isinstance(gradient.windows, AdaptiveWindows):
        return checked(_plan_adaptive(gradient, target), gradient, target)
    return checked(_plan_windows(gradient, gradient.windows, target), gradient, target)


def checked(planned: LoweredOp | Refusal, gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    """The operator, if the target has it and it takes the gradient's element type and sizes."""
    if isinstance(planned, Refusal):
        return planned
    support = target.operators.get(planned.name)
    if support is None:
        return refuse(Code.TARGET, "{} has no {}", target.title, planned.name)
    if gradient.element_type not in support.element_types:
        return refuse(Code.DTYPE, "{} on {} does not take this element type", planned.name, target.title)
    margins = planned.canvas or ((0, 0),) * (len(gradient.x_shape) - 2)
    sizes = [dim.static for dim in gradient.x_shape[2:]]
    known = [extent + sum(margin) for extent, margin in zip(sizes, margins, strict=True) if extent is not None]
    # Symbolic sizes count as 1 here; the provider checks the real plane of each Run.
    if math.prod(known) > support.max_plane:
        return refuse(
            Code.PLANE_SIZE,
            "a plane has {} elements, {} numbers at most {}",
            math.prod(known),
            planned.name,
            support.max_plane,
        )
    return planned


def _plan_adaptive(gradient: PoolGradient, target: Target) -> LoweredOp:
    windows = dividing_windows(gradient)
    return LoweredOp(ADAPTIVE_GRAD, {}) if windows is None else _plan_of(windows, False, target)


def dividing_windows(gradient: PoolGradient) -> list[AclnnWindow] | None:
    """The windows of an adaptive pool whose sizes are known to divide, which is then an ordinary one; else None."""
    pairs = zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)
    ratios = [_ratio(extent, count) for extent, count in pairs]
    windows = [AclnnWindow(ratio, ratio, 0) for ratio in ratios if ratio is not None]
    return windows if len(windows) == len(ratios) else None


def _ratio(extent: Dim, count: Dim) -> int | None:
    if extent.static is None or not count.static or extent.static % count.static:
        return None
    return extent.static // count.static or None


def _plan_windows(gradient: PoolGradient, pool: PoolAttributes, target: Target) -> LoweredOp | Refusal:
    axes: list[_Axis] = []
    for number, (extent, count) in enumerate(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)):
        window = pool.axis(number, extent)
        if window is None:
            return refuse(
                Code.AUTO_PAD_SYMBOLIC,
                "auto_pad={} on spatial axis {} of symbolic size {}",
                pool.auto_pad,
                number,
                extent,
            )
        axis = _Axis(number, window, extent.static, count.static)
        if (meaningless := axis.meaningless()) is not None:
            return meaningless
        axes.append(axis)
    return _fit(axes, pool.ceil, target)


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: ONNX's windows, and the sizes of x and output where they are numbers."""

    number: int
    window: AxisWindow
    extent: int | None
    count: int | None

    def meaningless(self) -> Refusal | None:
        """Why the pool has no window, or one whose index says nothing."""
        window = self.window
        if self.extent is not None and window.begin + self.extent + window.end < window.extent:
            return refuse(
                Code.OUTPUT_SIZE, "on spatial axis {} no window fits over {} elements", self.number, self.extent
            )
        if self.extent is None or self.count is None:
            return None
        if starts_in_padding(window, self.extent, self.count):
            return refuse(
                Code.WINDOW_IN_PADDING,
                "on spatial axis {} the last of {} windows starts behind the input",
                self.number,
                self.count,
            )
        if has_empty_window(window, self.extent, self.count):
            return refuse(Code.EMPTY_WINDOW, "on spatial axis {} a window touches no element", self.number)
        return None

    def direct(self, *, ceil: bool, onnx_ceil: bool) -> AclnnWindow | None:
        """The windows as aclnn takes them without a canvas, with one rounding; None where it does not."""
        widest = widened(self.window)
        if not widest.is_legal():
            return None
        if self.extent is not None and self.count is not None:
            return widest if widest.output_size(self.extent, ceil=ceil) == self.count else None
        # Of a symbolic size, floor gives floor's count for any pads, ceil gives ceil's only for equal ones.
        equal = self.window.begin == self.window.end
        return widest if ceil == onnx_ceil and (not ceil or equal) else None

    def canvas(self, *, ceil: bool) -> AclnnWindow | None:
        """The windows on a canvas; None where the size is not known or does not come out."""
        if self.extent is None or self.count is None:
            return None
        window = on_canvas(self.window, self.extent, self.count)
        return window if window.output_size(self.extent, ceil=ceil) == self.count else None


def _fit(axes: list[_Axis], onnx_ceil: bool, target: Target) -> LoweredOp | Refusal:
    """One rounding mode serves all axes: the pool's own if it can, else the other; then with a canvas."""
    roundings = (onnx_ceil, not onnx_ceil)
    for ceil in roundings:
        direct = [window for axis in axes if (window := axis.direct(ceil=ceil, onnx_ceil=onnx_ceil)) is not None]
        if len(direct) == len(axes):
            return _plan_of(direct, ceil, target)
    for ceil in roundings:
        fitted = [axis.direct(ceil=ceil, onnx_ceil=onnx_ceil) or axis.canvas(ceil=ceil) for axis in axes]
        windows = [window for window in fitted if window is not None]
        if len(windows) == len(axes):
            return _plan_of(windows, ceil, target)
    return _unfit(axes, onnx_ceil)


def _unfit(axes: list[_Axis], onnx_ceil: bool) -> Refusal:
    for axis in axes:
        pads = (axis.window.begin, axis.window.end)
        if axis.extent is not None and axis.count is not None:
            continue
        if not widened(axis.window).is_legal():
            return refuse(Code.SYMBOLIC_CANVAS, "pads {} need a canvas, and a size is symbolic", pads)
        if onnx_ceil and pads[0] != pads[1]:
            return refuse(Code.SYMBOLIC_CEIL, "ceil_mode with pads {} on a symbolic size", pads)
    return refuse(
        Code.OUTPUT_SIZE,
        "no rounding gives the output sizes {} over {} on all axes",
        [axis.count for axis in axes],
        [axis.extent for axis in axes],
    )


def _plan_of(windows: list[AclnnWindow], ceil: bool, target: Target) -> LoweredOp:
    flat = target.has_2d and len(windows) == 2
    margins = tuple((window.before, window.after) for window in windows)
    return LoweredOp(
        MAX_POOL_2D_GRAD if flat else MAX_POOL_3D_GRAD,
        window_attributes(windows, ceil=ceil, flat=flat) | ({"dtype": INT32_CODE} if flat else {}),
        margins if any(map(any, margins)) else (),
    )


def window_attributes(
    windows: Sequence[AclnnWindow], *, ceil: bool, flat: bool, dilations: Sequence[int] | None = None
) -> dict[str, int | str | list[int]]:
    """The attributes of a pool operator written out: two axes where it is `flat`, else three (missing ones: size 1)."""
    missing = 0 if flat else 3 - len(windows)
    return {
        "ksize": [1] * missing + [window.kernel for window in windows],
        "strides": [1] * missing + [window.stride for window in windows],
        "pads": [0] * missing + [window.pad for window in windows],
        "dilation": [1] * missing + list(dilations or [1] * len(windows)),
        "ceil_mode": int(ceil),
        "data_format": "NCHW" if flat else "NCDHW",
    }
