# SPDX-License-Identifier: Apache-2.0

"""Selects the operator and the windows that lower a gradient on a target, or refuses.

The conditions are those of CANN's operator pages; each one has a code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.pooled_axis import legal_windows, margins
from poolgrad_lowering.compiler.families.support import check_lowerable, inexpressible, operator_for, supported
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, widened
from poolgrad_lowering.dialect.targets import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.windows.adaptive import AdaptiveWindows
from poolgrad_lowering.model.windows.axis import AxisWindow
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes

INT32_CODE = 3
"""The attribute of an operator with the type of argmax: int32 (aclDataType)."""

WINDOWED_GRADIENTS = (MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD)
"""The operators for gradients of pools with windows, the preferred one first."""


def select_op(gradient: MaxPoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
    """Return the operator for a gradient on a target, `operator` if it is given. Raises `Refuse` if there is none."""
    if operator is None:
        return _select(gradient, target, WINDOWED_GRADIENTS)
    if operator == ADAPTIVE_GRAD and _is_adaptive(gradient):
        adaptive = LoweredOp(ADAPTIVE_GRAD, {})
        check_support(adaptive, gradient, target)
        return adaptive
    is_able = operator in WINDOWED_GRADIENTS and len(gradient.x_shape) in OPS[operator].ranks
    lowered = _select(gradient, target, (operator,) if is_able else WINDOWED_GRADIENTS)
    if lowered.name != operator:
        raise inexpressible(operator, gradient)
    return lowered


def _select(gradient: MaxPoolGradient, target: Target, windowed: Sequence[str]) -> LoweredOp:
    """Return the operator for a gradient; `windowed` are those to choose from where there are windows."""
    check_lowerable(gradient, gradient.x.value)
    pool, op = equal_windows(gradient), LoweredOp(ADAPTIVE_GRAD, {})
    if pool is not None:
        _, windows, ceil = legal_windows(gradient, pool, lambda _, window: widened(window))
        name = operator_for(gradient, target, windowed)
        op = LoweredOp(name, window_attributes(name, windows, ceil=ceil), margins(windows))
    check_support(op, gradient, target)
    return op


def check_support(op: LoweredOp, gradient: MaxPoolGradient, target: Target) -> None:
    """Raise `Refuse` unless the target has `op` and it supports the gradient's element type and sizes."""
    support = supported(op.name, gradient, gradient.x.value, target)
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
    layout = next(str(attribute.default) for attribute in op.attributes if attribute.name == "data_format")
    return {
        "ksize": [1] * missing + [window.kernel for window in windows],
        "strides": [1] * missing + [window.stride for window in windows],
        "pads": [0] * missing + [window.pad for window in windows],
        "dilation": [1] * missing + list(dilations or [1] * len(windows)),
        "ceil_mode": int(ceil),
        "data_format": layout,
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
