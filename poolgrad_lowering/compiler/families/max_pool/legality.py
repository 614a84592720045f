# SPDX-License-Identifier: Apache-2.0

"""Selects the operator and the windows that lower a gradient of a max pool, or its forward pool, on a target.

The windows of a gradient may be wider than the pool's: every recorded index must be in its window. A forward pool needs
exactly its own windows: none is widened, and x is not padded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.shared import legality as shared
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect import OPS, ops
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, widened
from poolgrad_lowering.dialect.body_windows import onnx_window
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.dialect.targets import Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Dim, Shown
from poolgrad_lowering.model.windows import AdaptiveWindows, AxisWindow, PoolAttributes

_WINDOWED = (ops.MAX_POOL_2D, ops.MAX_POOL_3D)
"""The operators for pools with windows, the preferred one first."""


def select_forward_op(gradient: MaxPoolGradient, target: Target) -> LoweredOp:
    """Return the operator for the pool that recorded a gradient's indices. Raises `Refuse` if the pool stays."""
    if gradient.reduction is not None:
        op = _select_reduced(gradient, gradient.reduction.order)
    else:
        pool = equal_windows(gradient)
        op = _adaptive_op(gradient) if pool is None else _select_windowed(gradient, pool, target)
    check_support(op, gradient, target)
    return op


def _select_reduced(gradient: MaxPoolGradient, order: Maximum | None) -> LoweredOp:
    """The operator whose function body can be a ReduceMax too."""
    name = gradient.pool.label if gradient.pool is not None else ""
    if not isinstance(gradient.windows, AdaptiveWindows) and order is None:
        raise Refuse(Code.FORWARD_WINDOWS, "ReduceMax '{}' is not over windows of adaptive pooling", name)
    op = _adaptive_op(gradient)
    if order is None:
        raise Refuse(Code.FORWARD_BODY, "no function body compares elements in the order of ReduceMax '{}'", name)
    return op


def _adaptive_op(gradient: MaxPoolGradient) -> LoweredOp:
    pooled = gradient.pooled_shape[2:]
    counts = [dim.static for dim in pooled if dim.static]
    if len(counts) != len(pooled):
        raise Refuse(Code.FORWARD_WINDOWS, "the pooled size of '{}' is not known", gradient.x.value.name)
    return LoweredOp(ops.ADAPTIVE, {"output_size": [1] * (3 - len(counts)) + counts, "indices_dtype": INT32_CODE})


def _select_windowed(gradient: MaxPoolGradient, pool: PoolAttributes, target: Target) -> LoweredOp:
    dilations = [d if k > 1 else 1 for k, d in zip(pool.kernel, pool.dilations, strict=True)]
    op = shared.operator_for(gradient, target, _WINDOWED)
    if max(dilations) > 1 and not target.operators.get(op, Support()).dilation:
        raise Refuse(Code.FORWARD_WINDOWS, "{} does not support dilation in a forward pool", target.title)
    sizes = list(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True))
    axes = [pool.axis(number, extent) for number, (extent, _) in enumerate(sizes)]
    for ceil in (pool.ceil, not pool.ceil):
        pairs = zip(axes, sizes, strict=True)
        if all(_is_supported(axis, *size, ceil=ceil, onnx_ceil=pool.ceil) for axis, size in pairs):
            found = [axis for axis in axes if axis is not None]
            windows = [AclnnWindow(axis.kernel, axis.stride, axis.begin) for axis in found]
            pads = [axis.begin for axis in found], [axis.end for axis in found]
            in_onnx = onnx_window(pool.kernel, pool.strides, pads, dilations, ceil=pool.ceil)
            return LoweredOp(op, window_attributes(op, windows, ceil=ceil, dilations=dilations) | in_onnx)
    given = [None if axis is None else (axis.begin, axis.end) for axis in axes]
    what = "for sizes {} no equal pads of at most half the kernel give the windows of pads {}"
    raise Refuse(Code.FORWARD_WINDOWS, what, Shown(gradient.x_shape[2:]), given)


def _is_supported(axis: AxisWindow | None, extent: Dim, count: Dim, *, ceil: bool, onnx_ceil: bool) -> bool:
    """Whether the target's pool, with the same begin padding, has as many windows as ONNX's.

    The end padding affects only the number of windows: positions after the input belong to no window.
    """
    if axis is None or axis.begin > axis.kernel // 2:
        return False
    if extent.static is None or count.static is None:
        return axis.begin == axis.end and ceil == onnx_ceil
    reach = AclnnWindow(axis.extent, axis.stride, axis.begin)
    return reach.output_size(extent.static, ceil=ceil) == count.static


INT32_CODE = 3
"""The attribute of an operator with the type of argmax: int32 (aclDataType)."""

WINDOWED_GRADIENTS = (ops.MAX_POOL_2D_GRAD, ops.MAX_POOL_3D_GRAD)
"""The operators for gradients of pools with windows, the preferred one first."""


def select_op(gradient: MaxPoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
    """Return the operator for a gradient on a target, `operator` if it is given. Raises `Refuse` if there is none."""
    if operator is None:
        return _select(gradient, target, WINDOWED_GRADIENTS)
    if operator == ops.ADAPTIVE_GRAD and _is_adaptive(gradient):
        adaptive = LoweredOp(ops.ADAPTIVE_GRAD, {})
        check_support(adaptive, gradient, target)
        return adaptive
    is_able = operator in WINDOWED_GRADIENTS and len(gradient.x_shape) in OPS[operator].ranks
    lowered = _select(gradient, target, (operator,) if is_able else WINDOWED_GRADIENTS)
    if lowered.name != operator:
        raise shared.inexpressible(operator, gradient)
    return lowered


def _select(gradient: MaxPoolGradient, target: Target, windowed: Sequence[str]) -> LoweredOp:
    """Return the operator for a gradient; `windowed` are those to choose from where there are windows."""
    shared.check_lowerable(gradient, gradient.x.value)
    pool, op = equal_windows(gradient), LoweredOp(ops.ADAPTIVE_GRAD, {})
    if pool is not None:
        _, windows, ceil = shared.legal_windows(gradient, pool, lambda _, window: widened(window))
        name = shared.operator_for(gradient, target, windowed)
        op = LoweredOp(name, window_attributes(name, windows, ceil=ceil), shared.margins(windows))
    check_support(op, gradient, target)
    return op


def check_support(op: LoweredOp, gradient: MaxPoolGradient, target: Target) -> None:
    """Raise `Refuse` unless the target has `op` and it supports the gradient's element type and sizes."""
    support = shared.supported(op.name, gradient, gradient.x.value, target)
    canvas = op.canvas or ((0, 0),) * (len(gradient.x_shape) - 2)
    sizes = [dim.static for dim in gradient.x_shape[2:]]
    known = [extent + sum(margin) for extent, margin in zip(sizes, canvas, strict=True) if extent is not None]
    # A symbolic size counts as 1 here; the provider checks the actual plane in each Run.
    if math.prod(known) > support.max_plane:
        what = "a plane has {} elements; {} supports at most {}"
        raise Refuse(Code.PLANE_SIZE, what, math.prod(known), op.name, support.max_plane)


def equal_windows(gradient: MaxPoolGradient) -> PoolAttributes | None:
    """Return the windows of a pool as those of a MaxPool; None if they are adaptive and sizes do not divide."""
    if isinstance(gradient.windows, PoolAttributes):
        return gradient.windows
    ratios = [_ratio(*sizes) for sizes in zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)]
    windows = [AxisWindow(ratio, ratio, 0, 0, 1) for ratio in ratios if ratio is not None]
    return PoolAttributes.of(windows) if len(windows) == len(ratios) else None


def _ratio(extent: Dim, count: Dim) -> int | None:
    if extent.static is None or not count.static or extent.static % count.static:
        return None
    return extent.static // count.static or None


def window_attributes(
    name: str, windows: Sequence[AclnnWindow], *, ceil: bool, dilations: Sequence[int] | None = None
) -> dict[str, int | str | list[int]]:
    """Return the attributes of an operator with windows and an int32 argmax. Axes that x lacks have a kernel of 1."""
    op = OPS[name]
    missing = op.axes - len(windows)
    return {
        "ksize": [1] * missing + [window.kernel for window in windows],
        "strides": [1] * missing + [window.stride for window in windows],
        "pads": [0] * missing + [window.pad for window in windows],
        "dilation": [1] * missing + list(dilations or [1] * len(windows)),
        "ceil_mode": int(ceil),
        "data_format": str(op.data_format),
        **({op.index_type: INT32_CODE} if op.index_type else {}),
    }


def _is_adaptive(gradient: MaxPoolGradient) -> bool:
    """Whether the gradient's windows are those of an adaptive pool: on each axis they tile it, or one covers it."""
    pool = gradient.windows
    if isinstance(pool, AdaptiveWindows):
        return True
    sizes = zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)
    return all(
        (window := pool.axis(number, extent)) is not None
        and count.static is not None
        and window.begin == window.end == 0
        and extent.static == window.extent * count.static
        and (window.stride == window.extent or count.static == 1)
        for number, (extent, count) in enumerate(sizes)
    )
