# SPDX-License-Identifier: Apache-2.0

"""Selects the operator and the windows that lower a gradient of an average pool on a target, or refuses.

The conditions are those of CANN's operators and of the aclnn functions that run them. Unlike those of a max pool,
windows cannot be widened: every element of a window gets its part of the gradient. Windows that Ascend cannot express
over x become windows over a canvas: x with the padding that they reach. If Ascend would count other elements, the
gradient is divided first, and the operator divides by 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poolgrad_lowering.compiler.families.avg_pool.counting import Counted, counted
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.shared.legality import (
    check_lowerable,
    inexpressible,
    legal_windows,
    margins,
    operator_for,
    supported,
)
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow
from poolgrad_lowering.dialect.average_pool_ops import (
    ADAPTIVE_AVERAGE_2D_GRAD,
    ADAPTIVE_AVERAGE_GRAD,
    AVERAGE_2D_GRAD,
    AVERAGE_3D_GRAD,
)
from poolgrad_lowering.dialect.average_window import average_window
from poolgrad_lowering.dialect.targets import Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.windows import AdaptiveWindows, AxisWindow

_OLDEST_OPSET_OF_2D = 12
"""The first opset with a function body of the adaptive operator over two axes."""


def select_op(gradient: AveragePoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
    """Return the operator for a gradient on a target, `operator` if it is given. Raises `Refuse` if there is none."""
    check_lowerable(gradient, gradient.grad.value)
    able = operators_for(gradient)
    if operator is not None and operator not in able:
        raise inexpressible(operator, gradient)
    chosen = operator or operator_for(gradient, target, able)
    op = _lowered(gradient, chosen)
    _check_elements(op, gradient, supported(chosen, gradient, gradient.grad.value, target))
    return op


def _check_elements(op: LoweredOp, gradient: AveragePoolGradient, support: Support) -> None:
    """Raise `Refuse` if x has fewer elements than cores that the operator may use: at most one for each window.

    The tiling then divides by zero (ops-nn of August 2026, Tiling4CastCopyOut in
    pooling/avg_pool3_d_grad/op_host/avg_pool_3d_grad_tiling.cpp, lines 288-302). If a size is symbolic, the provider
    checks the elements in each Run.
    """
    if not is_static(gradient.x_shape) or not is_static(gradient.pooled_shape):
        return
    margins_of = [0, 0, *map(sum, op.canvas or [(0, 0)] * (len(gradient.x_shape) - 2))]
    elements = math.prod(dim.coefficient + more for dim, more in zip(gradient.x_shape, margins_of, strict=True))
    windows = math.prod(dim.coefficient for dim in gradient.pooled_shape)
    if support.fails_on(gradient.element_type, elements, windows):
        raise Refuse(Code.FEW_ELEMENTS, "{} has {} windows over {} elements", op.name, windows, elements)


def operators_for(gradient: AveragePoolGradient) -> list[str]:
    """Return the operators that can express the windows of a gradient, the preferred one first.

    The adaptive operator over three axes comes before that over two: it takes a batch of any size, and aclnn has one
    function for both.
    """
    rank = len(gradient.x_shape)
    if isinstance(gradient.windows, AdaptiveWindows):
        is_fixed = rank == 4 and is_static(gradient.x_shape)
        is_new = gradient.dx.value.scope.opset >= _OLDEST_OPSET_OF_2D
        return [ADAPTIVE_AVERAGE_GRAD, *([ADAPTIVE_AVERAGE_2D_GRAD] if is_fixed and is_new else [])]
    return [*([AVERAGE_2D_GRAD] if rank == 4 else []), AVERAGE_3D_GRAD]


def _lowered(gradient: AveragePoolGradient, name: str) -> LoweredOp:
    if isinstance(gradient.windows, AdaptiveWindows):
        if name == ADAPTIVE_AVERAGE_GRAD:
            return LoweredOp(name, {"data_format": "NCDHW"})
        return LoweredOp(name, {"orig_input_shape": [dim.coefficient for dim in gradient.x_shape]})
    axes, windows, ceil = legal_windows(gradient, gradient.windows, _undilated)
    how = counted(axes, windows, padded=gradient.count_include_pad, divisor=gradient.divisor)
    return LoweredOp(name, _window_attributes(name, windows, how, ceil=ceil), margins(windows), how.divisors)


def _window_attributes(
    name: str, windows: Sequence[AclnnWindow], how: Counted, *, ceil: bool
) -> dict[str, int | float | str | list[int]]:
    """Return the attributes of an operator with windows. Axes that x lacks have a kernel of 1."""
    missing = 2 if name == AVERAGE_2D_GRAD else 3 - len(windows)
    pads = [window.pad for window in windows for _ in range(2)]
    common: dict[str, int | float | str | list[int]] = {
        "ksize": [1] * missing + [window.kernel for window in windows],
        "strides": [1] * missing + [window.stride for window in windows],
        "ceil_mode": int(ceil),
        "divisor_override": how.divisor,
        **average_window(
            [window.on_axis for window in windows],
            ceil=ceil,
            count_include_pad=how.padded,
            divisor=how.divisor,
        ),
    }
    if name == AVERAGE_3D_GRAD:
        return {
            **common,
            "pads": [0, 0] * missing + pads,
            "count_include_pad": int(how.padded),
            "data_format": "NCDHW",
        }
    return {
        **common,
        "pads": pads,
        "padding_mode": "CALCULATED",
        "exclusive": int(not how.padded),
        "global_pooling": 0,
        "data_format": "NCHW",
    }


def _undilated(number: int, window: AxisWindow) -> AclnnWindow:
    """Return the windows over x; the end padding changes only how many there are and what is counted.

    Raises `Refuse` if they have gaps inside.
    """
    if window.dilation > 1 and window.kernel > 1:
        raise Refuse(Code.DILATED_AVERAGE, "on spatial axis {} the windows have dilation {}", number, window.dilation)
    return AclnnWindow(window.kernel, window.stride, window.begin)
