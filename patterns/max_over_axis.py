# SPDX-License-Identifier: Apache-2.0

"""`dX[…, argmax[…], …] += dY[…]`, the index standing at one axis: the gradient of `torch.max(x, axis)`, of any rank.

    y, k = ReduceMax(x, axis), ArgMax(x, axis)
    dX = ScatterElements(zeros, Unsqueeze(k, axis), Unsqueeze(dY, axis), axis=axis)

PointNet and PointPillars pool points so, CBAM pools channels. It is a max pool whose window is the whole axis and one
element of every other one. Along the axes that are not spatial, and for other ranks than 3 to 5, x is viewed as
[∏before, 1, L, ∏after] and the window is [L, 1].

What must hold: the scatter goes along the reduced axis of a tensor of x's own shape, onto zeros. If that axis is the
last one, the scatter may also be over rows, [∏before, L], as in AdaptiveMaxPool1d(1) after a tool removed a Reshape
that changed nothing. A view needs an x that is not empty and has at most one symbolic size. Each line along the axis
gets one index, so a scatter that overwrites, as PyTorch exports it, is the same as one that adds, but for a gradient of
−0.0, which the lowered node turns into +0.0.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching import axis_maximum
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import (
    Scatter,
    check_adds_to_zeros,
    scattered_gradient,
)
from poolgrad_lowering.compiler.families.max_pool.matching.unrelated import INTEGERS
from poolgrad_lowering.compiler.families.shared.checks import known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Shown, size
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("", "ScatterElements"),
    summary="The maximum over one axis: ScatterElements onto zeros by an ArgMax along it",
    priority=30,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a ScatterElements node computes, None where it is no ArgMax's.

    A plane flattened to one axis is `torch_global_max`'s.
    """
    scatter = Scatter.read(node)
    reducer = facts.behind_views(scatter.recorded, "ArgMax")
    if reducer is None:
        return None
    maximum = axis_maximum.FirstMaximum.read(facts, reducer)
    if facts.element_type(maximum.data) in INTEGERS:
        what = "ArgMax '{}' finds maxima of integers, which have no gradient"
        raise Refuse(Code.UNRELATED_INDICES, what, reducer.label)
    if maximum.flattened(facts) is not None:
        return None
    x, shape, axis = maximum.data, maximum.shape, maximum.axis
    pooled = Pooled(x, known_element_type(facts, x), shape, axis_maximum.reduced_shape(shape, axis))
    check_adds_to_zeros(facts, scatter, ("add", "none"))
    is_view = _goes_over_rows(facts, scatter, axis, pooled)
    argmax = Operand(scatter.recorded, View.FLAT if is_view else View.SAME)
    gradient = scattered_gradient(facts, scatter, pooled, argmax, numbering=Numbering.AXIS)
    return axis_maximum.with_whole_reduction(facts, axis_maximum.as_max_pool(gradient, axis), reducer)


def _goes_over_rows(facts: Facts, scatter: Scatter, axis: int, pooled: Pooled) -> bool:
    """Whether the scatter is over the lines of x as rows, and not over x's own shape.

    An index is the position along the reduced axis of x; raises `Refuse` where it is not proven.
    """
    base, recorded = facts.shape(scatter.base), facts.shape(scatter.recorded)
    if base is None or recorded is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shapes of ScatterElements '{}' are not known", scatter.node.label)
    shape, along = pooled.x_shape, integer(scatter.node, "axis")
    if along in (axis, axis - len(shape)) and (base, recorded) == (shape, pooled.pooled_shape):
        return False
    is_last = axis == len(shape) - 1 and along in (-1, len(base) - 1)
    are_lines = base[-1:] == shape[-1:] and size(base[:-1]) == size(shape[:-1])
    if is_last and are_lines and recorded == axis_maximum.reduced_shape(base, len(base) - 1):
        return True
    what = "{} onto {} is not proven to go along axis {} of {}"
    raise Refuse(Code.ROWS_NOT_PLANES, what, Shown(recorded), Shown(base), axis, Shown(pooled.x_shape))
