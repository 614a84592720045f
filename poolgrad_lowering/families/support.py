# SPDX-License-Identifier: Apache-2.0

"""What the operators of a target support, whichever family a gradient is of."""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import type_name
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.dialect.op import TYPES, VALUE
from poolgrad_lowering.families.gradient import Gradient
from poolgrad_lowering.ir.dims import Shown
from poolgrad_lowering.ir.scopes import Value
from poolgrad_lowering.targets.table import Support, Target


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
