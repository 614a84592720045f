# SPDX-License-Identifier: Apache-2.0

"""The checkpoint between match and legality: verifies every `AveragePoolGradient`, whichever form made it.

The gradient of an average pool depends on shapes and windows alone, so the shapes are what has to be proven: that of x
and of grad fit the windows, and x's is the result's.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.shared.checks import (
    Kinds,
    check_element_types,
    check_names,
    check_operand_shape,
    check_order,
    check_pool,
    check_record,
    check_result,
    malformed,
)
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shown, differ, fits_reshape, is_static
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import AdaptiveWindows, pooled_sizes

_FIELDS: Kinds = {
    "x": (Operand, type(None)),
    "count_include_pad": bool,
    "divisor": int,
    "pool": (Node, type(None)),
    "spelled": bool,
}


def verify_gradient(facts: Facts, gradient: AveragePoolGradient) -> None:
    """Raises `Refuse` at the first condition that the gradient violates."""
    check_record(gradient, _FIELDS)
    check_pool(gradient)
    if isinstance(gradient.windows, AdaptiveWindows) and (gradient.divisor or gradient.count_include_pad):
        raise malformed(gradient, "windows of adaptive pooling count their own elements")
    check_element_types(facts, gradient, gradient.grad.value, gradient.dx.value)
    check_operand_shape(facts, Code.GRAD_SHAPE, gradient.grad, gradient.pooled_shape)
    check_result(facts, gradient)
    if gradient.x is not None:
        check_operand_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, gradient.x_shape)
    _check_count(gradient)
    check_order(gradient)


def check_operands(gradient: AveragePoolGradient) -> None:
    """Raises `Refuse` if a node in the place of dx cannot read an operand of a verified gradient.

    Its name denotes another value there, or a shape that it needs is not known.
    """
    check_names(gradient)
    if gradient.grad.view is View.FLAT and not fits_reshape(gradient.pooled_shape):
        what = "'{}' cannot be given the shape {}: sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, gradient.grad.value.name, Shown(gradient.pooled_shape))
    is_held = gradient.x is not None and gradient.x.view is View.SAME
    if gradient.reads_x and not is_held and not is_static(gradient.x_shape[2:]):
        what = "no value has the shape {} of the pooled input of '{}'"
        raise Refuse(Code.UNKNOWN_SHAPE, what, Shown(gradient.x_shape), gradient.dx.value.name)


def _check_count(gradient: AveragePoolGradient) -> None:
    """Raise `Refuse` if the windows over x are not as many as grad has elements: it is another pool's gradient."""
    if isinstance(gradient.windows, AdaptiveWindows):
        return
    given = gradient.pooled_shape[2:]
    counts = pooled_sizes(gradient.windows, gradient.x_shape[2:])
    sizes = tuple(other if count is None else count for count, other in zip(counts, given, strict=True))
    if differ(sizes, given):
        what = "the windows over {} are {}, and '{}' has the shape {}"
        shown = Shown(gradient.x_shape), Shown(sizes), gradient.grad.value.name, Shown(gradient.pooled_shape)
        raise Refuse(Code.GRAD_SHAPE, what, *shown)
