"""Operators that a target has for a gradient beside its first choice. A plan file may ask for one of them."""

from __future__ import annotations

from dataclasses import replace

from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.ir.dims import Shown
from poolgrad_lowering.legality.gradients import LoweredOp, checked, select_op
from poolgrad_lowering.legality.targets import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, Target

GRADIENT_OPERATORS = (MAX_POOL_3D_GRAD, MAX_POOL_2D_GRAD, ADAPTIVE_GRAD)


def select_op_named(op: str, gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    """The plan for a gradient by one operator of the target and no other, or why there is none."""
    if op == ADAPTIVE_GRAD and _is_adaptive(gradient):
        return checked(LoweredOp(ADAPTIVE_GRAD, {}), gradient, target)
    planned = select_op(gradient, replace(target, has_2d=op == MAX_POOL_2D_GRAD))
    if isinstance(planned, Refusal) or planned.name == op:
        return planned
    return refuse(
        Code.OPERATOR_WINDOWS,
        "{} does not have the windows of a pool of {} to {}",
        op,
        Shown(gradient.x_shape),
        Shown(gradient.pooled_shape),
    )


def alternatives(gradient: PoolGradient, target: Target, first: str) -> list[str]:
    """The other operators of the target that a gradient may be lowered to, `first` being the one that it is."""
    others = (op for op in GRADIENT_OPERATORS if op != first and op in target.operators)
    return [op for op in others if isinstance(select_op_named(op, gradient, target), LoweredOp)]


def _is_adaptive(gradient: PoolGradient) -> bool:
    """Whether the gradient's windows are those of an adaptive pool: they tile the axis, or one covers all of it."""
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
