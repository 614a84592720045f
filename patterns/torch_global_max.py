"""PyTorch's AdaptiveMaxPool(1): dX = Reshape(ScatterElements(zeros, ArgMax of each flattened plane, updates)).

torch decomposes a pool to one output per plane into `amax` and `argmax` over the plane flattened to one axis; no pool
node exists. Its gradient is the scatter that MaxPool's is, with one index a plane, counted inside the plane by
construction; `index_put(accumulate=True)` becomes ScatterND, with a constant table of the rows. What is proven here:
ArgMax reads rows that are the planes of x, and takes the first maximum as a pool does. One index a row never meets
another, so a scatter that overwrites is the same, but for the sign of a gradient of -0.0, which adding onto +0.0 loses.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import AdaptiveWindows, Pattern, PoolGradient
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.matching.first_maximum import FirstMaximum, argmax_node
from poolgrad_lowering.matching.forward import Pooled
from poolgrad_lowering.matching.scatter import (
    Scatter,
    check_adds_to_zeros,
    check_rows_are_planes,
    plane_argmax_of,
    scattered_gradient,
)
from poolgrad_lowering.matching.scatter_nd import not_by_rows, within_rows


def match(facts: Facts, node: Node) -> PoolGradient | Refusal | None:
    """The gradient that a scatter computes, or why it is not one; None where no plane was flattened."""
    read = Scatter.read(node)
    if isinstance(read, Refusal):
        return None
    scatter = within_rows(read) if node.is_a("ScatterND") else read
    reducer = argmax_node(facts, scatter.recorded)
    if reducer is None:
        return None
    maximum = FirstMaximum.read(facts, reducer)
    if isinstance(maximum, Refusal):
        return maximum
    x = maximum.flattened(facts)
    return None if x is None else _gradient(facts, scatter, x)


def _gradient(facts: Facts, scatter: Scatter, x: Value) -> PoolGradient | Refusal:
    pooled = _one_window(facts, x)
    if isinstance(pooled, Refusal):
        return pooled
    misplaced = not_by_rows if scatter.node.is_a("ScatterND") else check_rows_are_planes
    elsewhere = check_adds_to_zeros(facts, scatter, ("add", "none")) or misplaced(
        facts, scatter, pooled, Numbering.PLANE
    )
    argmax = plane_argmax_of(facts, scatter.recorded, pooled)
    return elsewhere or scattered_gradient(facts, scatter, pooled, AdaptiveWindows(), argmax)


def _one_window(facts: Facts, x: Value) -> Pooled | Refusal:
    """The pooling of x to one element a plane."""
    element_type, shape = facts.element_type(x), facts.shape(x)
    if not element_type or shape is None:
        return refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", x.name)
    return Pooled(x, element_type, shape, shape[:2] + (Dim(1),) * len(shape[2:]))


PATTERN = Pattern(
    name="torch_global_max",
    anchors=(("", "ScatterElements"), ("", "ScatterND")),
    summary="PyTorch AdaptiveMaxPool(1): ScatterElements or ScatterND onto zeros by the ArgMax of a flattened plane",
    match=match,
    priority=50,
)
