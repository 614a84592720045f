"""The maximum over one axis (`torch.max(x, dim)`): dX = ScatterElements(zeros, ArgMax along the axis, updates).

PointNet and its kin pool points or neighbours so. Along a spatial axis it is a max pool: one window as long as the
axis, size one on the other spatial axes. Each line along the axis gets one index, so that a scatter that overwrites,
as PyTorch exports it, is the same as one that adds, but for the sign of a gradient of -0.0, which adding onto +0.0
loses. What is proven here: the scatter goes along the reduced axis of a tensor of x's own shape, and the axis is a
spatial one.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.gradient import AdaptiveWindows, Pattern, PoolGradient
from poolgrad_lowering.ir.attributes import integer
from poolgrad_lowering.ir.dims import Dim, Shape, Shown
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.matching.first_maximum import FirstMaximum, argmax_node
from poolgrad_lowering.matching.forward import Pooled, known_element_type
from poolgrad_lowering.matching.scatter import Argmax, Scatter, check_adds_to_zeros, scattered_gradient


def match(facts: Facts, node: Node) -> PoolGradient | None:
    """The gradient that a ScatterElements node computes, or why it is not one; None where it is no ArgMax's.

    A plane flattened to one axis is `torch_global_max`'s.
    """
    scatter = Scatter.read(node)
    reducer = argmax_node(facts, scatter.recorded)
    if reducer is None:
        return None
    maximum = FirstMaximum.read(facts, reducer)
    if maximum.flattened(facts) is not None:
        return None
    pooled = _one_line(facts, maximum)
    check_adds_to_zeros(facts, scatter, ("add", "none"))
    _check_along_axis(facts, scatter, maximum, pooled)
    argmax = Argmax(scatter.recorded, Numbering.AXIS, axis=maximum.axis - 2)
    return scattered_gradient(facts, scatter, pooled, AdaptiveWindows(), argmax)


def _one_line(facts: Facts, maximum: FirstMaximum) -> Pooled:
    """The pooling of x to one element a line along the axis."""
    x, shape, axis = maximum.data, maximum.shape, maximum.axis
    if axis < 2:
        raise Refuse(Code.NOT_SPATIAL, "ArgMax '{}' is over axis {} of {}", maximum.node.label, axis, Shown(shape))
    return Pooled(x, known_element_type(facts, x), shape, _with_one(shape, axis))


def _check_along_axis(facts: Facts, scatter: Scatter, maximum: FirstMaximum, pooled: Pooled) -> None:
    """An index is the position along the reduced axis of x."""
    base, recorded = facts.shape(scatter.base), facts.shape(scatter.recorded)
    if base is None or recorded is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shapes of ScatterElements '{}' are not known", scatter.node.label)
    along = integer(scatter.node, "axis") in (maximum.axis, maximum.axis - len(maximum.shape))
    if not along or (base, recorded) != (pooled.x_shape, pooled.pooled_shape):
        raise Refuse(
            Code.ROWS_NOT_PLANES,
            "{} onto {} is not proven to go along axis {} of {}",
            Shown(recorded),
            Shown(base),
            maximum.axis,
            Shown(pooled.x_shape),
        )


def _with_one(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], Dim(1), *shape[axis + 1 :])


PATTERN = Pattern(
    name="max_over_axis",
    anchors=(("", "ScatterElements"),),
    summary="The maximum over one spatial axis: ScatterElements onto zeros by an ArgMax along it",
    match=match,
    priority=30,
)
