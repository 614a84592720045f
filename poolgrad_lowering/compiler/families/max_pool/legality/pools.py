# SPDX-License-Identifier: Apache-2.0

"""Selects the operator that lowers the forward pool of a gradient on a target, or refuses.

Unlike a gradient, a pool needs exactly its own windows: no window is widened, and x is not padded.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, Reduction
from poolgrad_lowering.compiler.families.max_pool.legality.gradients import (
    INT32_CODE,
    check_support,
    equal_windows,
    window_attributes,
)
from poolgrad_lowering.compiler.families.support import operator_for
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow
from poolgrad_lowering.dialect.onnx_window import onnx_window
from poolgrad_lowering.dialect.targets import ADAPTIVE, MAX_POOL_2D, MAX_POOL_3D, Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Dim, Shown
from poolgrad_lowering.model.windows.adaptive import AdaptiveWindows
from poolgrad_lowering.model.windows.axis import AxisWindow
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes

_WINDOWED = (MAX_POOL_2D, MAX_POOL_3D)
"""The operators for pools with windows, the preferred one first."""


def select_forward_op(gradient: MaxPoolGradient, target: Target) -> LoweredOp:
    """Return the operator for the pool that recorded a gradient's indices. Raises `Refuse` if the pool stays."""
    if gradient.reduction is not None:
        op = _select_reduced(gradient, gradient.reduction)
    else:
        pool = equal_windows(gradient)
        op = _adaptive_op(gradient) if pool is None else _select_windowed(gradient, pool, target)
    check_support(op, gradient, target)
    return op


def _select_reduced(gradient: MaxPoolGradient, reduction: Reduction) -> LoweredOp:
    """The operator whose function body can be a ReduceMax too."""
    if not isinstance(gradient.windows, AdaptiveWindows) and reduction.order is None:
        raise Refuse(
            Code.FORWARD_WINDOWS, "ReduceMax '{}' is not over windows of adaptive pooling", reduction.node.label
        )
    op = _adaptive_op(gradient)
    if reduction.order is None:
        raise Refuse(
            Code.FORWARD_BODY, "no function body compares elements in the order of ReduceMax '{}'", reduction.node.label
        )
    return op


def _adaptive_op(gradient: MaxPoolGradient) -> LoweredOp:
    pooled = gradient.pooled_shape[2:]
    counts = [dim.static for dim in pooled if dim.static]
    if len(counts) != len(pooled):
        raise Refuse(Code.FORWARD_WINDOWS, "the pooled size of '{}' is not known", gradient.x.value.name)
    return LoweredOp(ADAPTIVE, {"output_size": [1] * (3 - len(counts)) + counts, "indices_dtype": INT32_CODE})


def _select_windowed(gradient: MaxPoolGradient, pool: PoolAttributes, target: Target) -> LoweredOp:
    dilations = [d if k > 1 else 1 for k, d in zip(pool.kernel, pool.dilations, strict=True)]
    op = operator_for(gradient, target, _WINDOWED)
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
