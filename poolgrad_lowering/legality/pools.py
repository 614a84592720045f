"""Whether a target can run the forward pool of a gradient itself: a plan, or a reason.

Unlike the gradient, the pool has to look at exactly its own windows: nothing is widened, and x is not padded first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poolgrad_lowering.analysis.pool import AxisWindow, PoolAttributes
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.dialect.onnx_window import onnx_window
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.ir.dims import Dim, Shown
from poolgrad_lowering.legality.gradients import INT32_CODE, LoweredOp, checked, dividing_windows, window_attributes
from poolgrad_lowering.legality.targets import ADAPTIVE, MAX_POOL_2D, MAX_POOL_3D, Target
from poolgrad_lowering.legality.windows import AclnnWindow


def select_forward_op(gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    """The plan for the pool that recorded a gradient's indices, or why it stays what it is."""
    if isinstance(gradient.windows, AdaptiveWindows):
        return checked(_plan_adaptive(gradient, target), gradient, target)
    return checked(_plan_windows(gradient, gradient.windows, target), gradient, target)


def _plan_adaptive(gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    windows = dividing_windows(gradient)
    if windows is not None:
        ones, zeros = [1] * len(windows), [0] * len(windows)
        sizes = [window.kernel for window in windows]
        return _plan_of(windows, ones, onnx_window(sizes, sizes, (zeros, zeros), ones, ceil=False), target)
    pooled = gradient.pooled_shape[2:]
    counts = [dim.static for dim in pooled if dim.static]
    if len(counts) != len(pooled):
        return refuse(Code.FORWARD_WINDOWS, "the pooled size of '{}' is not known", gradient.x.name)
    return LoweredOp(ADAPTIVE, {"output_size": [1] * (3 - len(counts)) + counts, "indices_dtype": INT32_CODE})


def _plan_windows(gradient: PoolGradient, pool: PoolAttributes, target: Target) -> LoweredOp | Refusal:
    dilations = [d if k > 1 else 1 for k, d in zip(pool.kernel, pool.dilations, strict=True)]
    if max(dilations) > 1 and not target.forward_dilation:
        return refuse(Code.FORWARD_WINDOWS, "{} takes no dilation in a forward pool", target.title)
    sizes = list(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True))
    axes = [pool.axis(number, extent) for number, (extent, _) in enumerate(sizes)]
    for ceil in (pool.ceil, not pool.ceil):
        pairs = zip(axes, sizes, strict=True)
        if all(_represented(axis, *size, ceil=ceil, onnx_ceil=pool.ceil) for axis, size in pairs):
            found = [axis for axis in axes if axis is not None]
            windows = [AclnnWindow(axis.kernel, axis.stride, axis.begin) for axis in found]
            pads = [axis.begin for axis in found], [axis.end for axis in found]
            in_onnx = onnx_window(pool.kernel, pool.strides, pads, dilations, ceil=pool.ceil)
            return _plan_of(windows, dilations, in_onnx, target, ceil=ceil)
    return refuse(
        Code.FORWARD_WINDOWS,
        "over {} no padding of at most half the kernel, alike at both ends, gives the windows of pads {}",
        Shown(gradient.x_shape[2:]),
        [None if axis is None else (axis.begin, axis.end) for axis in axes],
    )


def _represented(axis: AxisWindow | None, extent: Dim, count: Dim, *, ceil: bool, onnx_ceil: bool) -> bool:
    """Whether the target's windows, begun where the pool's are, are as many.

    The end padding matters for nothing else: what a window reaches behind the input is no part of it.
    """
    if axis is None or axis.begin > axis.kernel // 2:
        return False
    if extent.static is None or count.static is None:
        return axis.begin == axis.end and ceil == onnx_ceil
    reach = AclnnWindow(axis.extent, axis.stride, axis.begin)
    return reach.output_size(extent.static, ceil=ceil) == count.static


def _plan_of(
    windows: Sequence[AclnnWindow],
    dilations: Sequence[int],
    in_onnx: Mapping[str, int | str | list[int]],
    target: Target,
    *,
    ceil: bool = False,
) -> LoweredOp:
    flat = target.has_2d and len(windows) == 2
    attributes = window_attributes(windows, ceil=ceil, flat=flat, dilations=dilations)
    return LoweredOp(MAX_POOL_2D if flat else MAX_POOL_3D, {**attributes, "dtype": INT32_CODE, **in_onnx})
