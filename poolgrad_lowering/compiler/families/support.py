# SPDX-License-Identifier: Apache-2.0

"""What the operators of a target support, whichever family a gradient is of."""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.dialect import OPS, TYPES
from poolgrad_lowering.dialect.op import VALUE
from poolgrad_lowering.dialect.targets import Support, Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.ir.tensors import type_name


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


def operator_for(gradient: Gradient, target: Target, operators: Sequence[str]) -> str:
    """Return the first operator for x's rank that the target has for the gradient's element type.

    If it has none for that type, the first that it has, and if it has none at all, the last one.
    """
    able = [name for name in operators if len(gradient.x_shape) in OPS[name].ranks]
    types = gradient.element_type, None
    return next((name for one in types for name in able if target.supports(name, one)), able[-1])


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
