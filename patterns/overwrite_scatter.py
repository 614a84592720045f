# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[Indices[n, c, o]] = dY[n, c, o]`, o running over windows of which no two share an element.

    dX = Reshape(ScatterElements(zeros, Indices, dY))    # or ScatterND

PyTorch's `scatter` and `index_put` are exported so, as is the unpooling of SegNet, which is the same function. The
TorchScript exporter also writes `index_put(accumulate=True)` and `index_add` so, followed by an Add of zeros: it loses
the accumulation.

What must hold: windows do not overlap, that is, along every axis the effective kernel is at most the stride, or there
is one window. Where windows share an element, the last one wins, which is no gradient. All else is as for
`torch_scatter_add`. One bit differs: −0.0 is written as it is, and arrives as +0.0 where it is added to zero.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import find_indices
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import forward_pool
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import (
    Scatter,
    check_adds_to_zeros,
    check_positions,
    scattered_gradient,
)
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import attribute
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("", "ScatterElements"),
    ("", "ScatterND"),
    summary="PyTorch scatter and index_put, max-unpool: overwriting by a MaxPool's Indices where no windows overlap",
    priority=40,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that an overwriting scatter computes; raises `Refuse` where it cannot be lowered.

    None where it reduces, or overwrites by something else than a MaxPool's Indices.
    """
    scatter = Scatter.read(node)
    if attribute(node, "reduction") not in (None, "none"):
        return None
    found = find_indices(facts, scatter.recorded)
    if found is None:
        return None
    forward = forward_pool(facts, found.pool)
    forward.check_no_overlap(node)
    check_adds_to_zeros(facts, scatter, ("none",))
    check_positions(facts, scatter, forward, found.numbering)
    return scattered_gradient(facts, scatter, forward, Operand(found.argmax), numbering=found.argmax_numbering)
