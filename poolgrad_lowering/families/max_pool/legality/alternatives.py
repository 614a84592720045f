# SPDX-License-Identifier: Apache-2.0

"""The other operators that a target has for a gradient. A plan may choose one of them."""

from __future__ import annotations

from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.families.max_pool.gradient import AdaptiveWindows, MaxPoolGradient
from poolgrad_lowering.families.max_pool.legality.gradients import WINDOWED_GRADIENTS, check_support, select_op
from poolgrad_lowering.families.verdicts import LoweredOp
from poolgrad_lowering.ir.dims import Shown
from poolgrad_lowering.targets.table import ADAPTIVE_GRAD, Target


def select_op_named(op: str, gradient: MaxPoolGradient, target: Target) -> LoweredOp:
    """Return the lowering of a gradient to the operator `op`. Raises `Refuse` if the target has none."""
    if op == ADAPTIVE_GRAD and _is_adaptive(gradient):
        adaptive = LoweredOp(ADAPTIVE_GRAD, {})
        check_support(adaptive, gradient, target)
        return adaptive
    is_able = op in WINDOWED_GRADIENTS and len(gradient.x_shape) in OPS[op].ranks
    lowered = select_op(gradient, target, (op,) if is_able else WINDOWED_GRADIENTS)
    if lowered.name == op:
        return lowered
    raise Refuse(
        Code.OPERATOR_WINDOWS,
        "{} cannot express the windows of a pool of {} to {}",
        op,
        Shown(gradient.x_shape),
        Shown(gradient.pooled_shape),
    )


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
