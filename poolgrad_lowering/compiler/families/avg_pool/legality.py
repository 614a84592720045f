# SPDX-License-Identifier: Apache-2.0

"""Selects the operator and the windows that lower a gradient of an average pool on a target, or refuses.

The conditions are those of CANN's operators and of the aclnn functions that run them. Unlike those of a max pool,
windows cannot be widened: every element of a window gets its part of the gradient. Windows that Ascend cannot express
over x become windows over a canvas: x with the padding that they reach. If Ascend would count other elements, the
gradient is divided first, and the operator divides by 1.

Formulas: window o of an axis has the elements from o·s − b up to, not including, o·s − b + k. It counts those of x, or
with count_include_pad those from −b up to x's end plus the end padding (ONNX's AveragePool, version 22; PyTorch;
CANN's documentation of aclnnAvgPool2dBackward, whose padding is the same at both ends).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.shared import legality as shared
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect import ops
from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow
from poolgrad_lowering.dialect.body_windows import average_window
from poolgrad_lowering.dialect.targets import Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.windows import AdaptiveWindows, AxisWindow

_GLOBAL = 10
"""The least size, on both axes, of one window over a whole plane that aclnnAvgPool2dBackward divides by kH·kW."""

_LARGEST_DIVISOR = 1 << 24
"""The largest divisor of all windows: float32, in which Ascend's operators divide, holds every integer up to it."""


class Counted(NamedTuple):
    """How an operator counts the elements of windows: with the padding or without; not at all if `divisor` is not 0.

    If `divisors` is not empty, it has the divisor of each window by axis, and the gradient has to be divided by their
    products before: the operator's divisor is 1.
    """

    padded: bool
    divisor: int = 0
    divisors: tuple[tuple[int, ...], ...] = ()


def counted(
    axes: Sequence[shared.PooledAxis], windows: Sequence[AclnnWindow], *, padded: bool, divisor: int
) -> Counted:
    """Return how the operator with `windows` has to count. Raises `Refuse` if a symbolic size decides, or `divisor` is
    large.

    `padded` and `divisor` are those of the pool: whether the padding counts, and the divisor of all windows if not 0.
    """
    if divisor > _LARGEST_DIVISOR:
        what = "the divisor of all windows is {}; a divisor of Ascend's operators is at most {}"
        raise Refuse(Code.AVERAGE_DIVISORS, what, divisor, _LARGEST_DIVISOR)
    if divisor:
        return Counted(padded, divisor)
    known = [
        (axis.window, window, size, count)
        for axis, window in zip(axes, windows, strict=True)
        if (size := axis.extent) is not None and (count := axis.pooled) is not None
    ]
    divisors = [own.elements(size, count, padded=padded) for own, _, size, count in known]
    if _is_divided_by_kernel(axes, windows) and not padded:
        return Counted(padded, math.prod(each[0] for each in divisors))
    for mode in (padded, not padded):
        by_ascend = [
            window.on_axis.elements(window.before + size + window.after, count, padded=mode)
            for _, window, size, count in known
        ]
        if divisors == by_ascend and (mode is padded or len(known) == len(axes)):
            return Counted(mode)
    if len(known) < len(axes):
        what = "the number of elements that a window counts depends on a symbolic size"
        raise Refuse(Code.SYMBOLIC_CANVAS, what)
    if all(len(set(each)) == 1 for each in divisors):
        return Counted(padded, math.prod(each[0] for each in divisors))
    return Counted(padded, 1, tuple(map(tuple, divisors)))


def _is_divided_by_kernel(axes: Sequence[shared.PooledAxis], windows: Sequence[AclnnWindow]) -> bool:
    """Whether CANN takes the pool for one over whole planes, and divides by the kernel although padding is in it.

    It looks at the sizes of self and of the kernel alone (aclnnAvgPool2dBackward, the check of a global pool).
    """
    pairs = zip(axes, windows, strict=True)
    sizes = [(axis.extent or 0) + window.before + window.after for axis, window in pairs]
    return (
        len(axes) == 2
        and sizes == [window.kernel for window in windows]
        and all(axis.pooled == 1 for axis in axes)
        and min(window.kernel for window in windows) >= _GLOBAL
        and any(window.pad for window in windows)
    )


_OLDEST_OPSET_OF_2D = 12
"""The first opset with a function body of the adaptive operator over two axes."""


def select_op(gradient: AveragePoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
    """Return the operator for a gradient on a target, `operator` if it is given. Raises `Refuse` if there is none."""
    shared.check_lowerable(gradient, gradient.grad.value)
    _check_adaptive(gradient)
    able = operators_for(gradient)
    if operator is not None and operator not in able:
        raise shared.inexpressible(operator, gradient)
    chosen = operator or shared.operator_for(gradient, target, able)
    op = _lowered(gradient, chosen)
    _check_elements(op, gradient, shared.supported(chosen, gradient, gradient.grad.value, target))
    return op


def _check_adaptive(gradient: AveragePoolGradient) -> None:
    """Raise `Refuse` if an adaptive pool has more windows along an axis than elements, and nothing is gained.

    The provider does not run such a node, and raises an error in a Run if batch or channels are symbolic. The operators
    of other producers than ONNX have no kernel anywhere, so the function body of the lowered node is of use.
    """
    is_run_by_a_body = not gradient.in_onnx and all(size.static is not None for size in gradient.x_shape[:2])
    if is_run_by_a_body or not isinstance(gradient.windows, AdaptiveWindows):
        return
    for number, (size, count) in enumerate(zip(gradient.x_shape[2:], gradient.pooled_shape[2:], strict=True)):
        if size.static is not None and count.static is not None and count.static > size.static:
            what = "on spatial axis {} an adaptive pool has {} windows over {} elements"
            raise Refuse(Code.MORE_WINDOWS, what, number, count.static, size.static)


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
        return [ops.ADAPTIVE_AVERAGE_GRAD, *([ops.ADAPTIVE_AVERAGE_2D_GRAD] if is_fixed and is_new else [])]
    return [*([ops.AVERAGE_2D_GRAD] if rank == 4 else []), ops.AVERAGE_3D_GRAD]


def _lowered(gradient: AveragePoolGradient, name: str) -> LoweredOp:
    if isinstance(gradient.windows, AdaptiveWindows):
        if name == ops.ADAPTIVE_AVERAGE_GRAD:
            return LoweredOp(name, {"data_format": "NCDHW"})
        return LoweredOp(name, {"orig_input_shape": [dim.coefficient for dim in gradient.x_shape]})
    axes, windows, ceil = shared.legal_windows(gradient, gradient.windows, _undilated)
    how = counted(axes, windows, padded=gradient.count_include_pad, divisor=gradient.divisor)
    return LoweredOp(name, _window_attributes(name, windows, how, ceil=ceil), shared.margins(windows), how.divisors)


def _window_attributes(
    name: str, windows: Sequence[AclnnWindow], how: Counted, *, ceil: bool
) -> dict[str, int | float | str | list[int]]:
    """Return the attributes of an operator with windows. Axes that x lacks have a kernel of 1."""
    missing = 2 if name == ops.AVERAGE_2D_GRAD else 3 - len(windows)
    pads = [window.pad for window in windows for _ in range(2)]
    common: dict[str, int | float | str | list[int]] = {
        "ksize": [1] * missing + [window.kernel for window in windows],
        "strides": [1] * missing + [window.stride for window in windows],
        "ceil_mode": int(ceil),
        "divisor_override": how.divisor,
        **average_window(
            [window.on_axis for window in windows], ceil=ceil, count_include_pad=how.padded, divisor=how.divisor
        ),
    }
    if name == ops.AVERAGE_3D_GRAD:
        return {**common, "pads": [0, 0] * missing + pads, "count_include_pad": int(how.padded), "data_format": "NCDHW"}
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
