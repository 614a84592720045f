"""Scatters without a reduction: dX = Reshape(ScatterElements(zeros, indices, updates)), or with ScatterND.

PyTorch's `scatter` and `index_put`, and the MaxUnpool of SegNet and its kind, which is the same thing. The legacy
exporter writes `index_put(accumulate=True)` and `index_add` so too, with an Add of zeros behind, and loses the
accumulation. Where windows share an element, the last one wins instead of the sum: that is no gradient and stays. Where
no two windows can overlap (the effective kernel is at most the stride, or there is one window, on every axis), nothing
is ever written twice, and overwriting is adding. One bit differs: an incoming −0.0 is written as it is, and added to
zero as +0.0.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import find_indices
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.attributes import attribute
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.matching.scatter import (
    Argmax,
    Scatter,
    check_adds_to_zeros,
    check_rows_are_planes,
    scattered_gradient,
)
from poolgrad_lowering.matching.scatter_nd import check_nd_rows_are_planes, within_rows


def match(facts: Facts, node: Node) -> PoolGradient | None:
    """The gradient that an overwriting scatter computes, or why it is not one that can be lowered.

    None where it reduces, or overwrites by something else than a MaxPool's Indices.
    """
    scatter = Scatter.read(node)
    if attribute(node, "reduction") not in (None, "none"):
        return None
    by_rows = node.is_a("ScatterND")
    found = find_indices(facts, (within_rows(scatter) if by_rows else scatter).recorded)
    if found is None:
        return None
    forward = forward_pool(facts, found.pool)
    _check_no_overlap(node, forward)
    check_adds_to_zeros(facts, scatter, ("none",))
    check_positions = check_nd_rows_are_planes if by_rows else check_rows_are_planes
    check_positions(facts, scatter, forward, found.numbering)
    argmax = Argmax(found.argmax, found.argmax_numbering)
    return scattered_gradient(facts, scatter, forward, forward.attributes, argmax)


def _check_no_overlap(node: Node, forward: ForwardPool) -> None:
    """No two windows share an element."""
    pool = forward.attributes
    axes = zip(pool.kernel, pool.dilations, pool.strides, forward.pooled_shape[2:], strict=True)
    for number, (kernel, dilation, stride, count) in enumerate(axes):
        if (kernel - 1) * dilation + 1 > stride and count.static != 1:
            raise Refuse(
                Code.OVERLAPPING_OVERWRITE,
                "{} '{}' overwrites, and windows of MaxPool '{}' overlap on spatial axis {}",
                node.proto.op_type,
                node.label,
                forward.node.label,
                number,
            )


PATTERN = Pattern(
    name="overwrite_scatter",
    anchors=(("", "ScatterElements"), ("", "ScatterND")),
    summary="PyTorch scatter and index_put, max-unpool: overwriting by a MaxPool's Indices where no windows overlap",
    match=match,
    priority=40,
)
