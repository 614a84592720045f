# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += dY[n, c, o]`, o running over the windows of a MaxPool.

Graph: `torch.onnx.export(dynamo=True)` decomposes the backward of max_pool into a scatter onto rows, one per (n, c)
plane. Users also write one flat scatter by whole-tensor Indices, or PyTorch's `index_put(accumulate=True)`, which the
exporter writes as a ScatterND in two ways.

    indices = Indices of MaxPool − first index of each plane
    dX = Reshape(ScatterElements(zeros as rows, Reshape(indices), Reshape(dY), axis=1, reduction="add"))
    dX = Reshape(ScatterND(flat zeros, indices + first index of each plane, dY, reduction="add"))
    dX = Reshape(ScatterND(zeros as rows, Concat(numbers of rows, indices), dY, reduction="add"))

Optimisers add and remove the views around it. Half types are scattered in float32 between two Casts. 1-D and unbatched
pools are surrounded by Unsqueeze and Squeeze.

What must hold: the base is all zero, a row is a plane, index and update of one element stand at the same place, and the
result is seen in x's shape. The first indices and the numbers of the rows of a ScatterND are constant tables, which are
checked value by value. A scatter that adds in a half type is lowered too: the lowered node adds in float32 and rounds
once, where the scatter rounds every sum.

The order of the checks is the order of the refusals: a later refusal means that the graph is closer to a pool gradient.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Indices, indices
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import forward_pool
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import (
    Scatter,
    check_adds_to_zeros,
    check_positions,
    scattered_gradient,
)
from poolgrad_lowering.compiler.families.max_pool.matching.unrelated import check_can_be_of_a_pool
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("", "ScatterElements"),
    ("", "ScatterND"),
    summary="PyTorch joint graphs: a scatter that adds dY onto zeros by a MaxPool's Indices",
    priority=60,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient:
    """The gradient that a scatter computes; raises `Refuse` where it cannot be lowered."""
    scatter = Scatter.read(node)
    found = _indices(facts, scatter)
    check_adds_to_zeros(facts, scatter)
    forward = forward_pool(facts, found.pool)
    check_positions(facts, scatter, forward, found.numbering)
    return scattered_gradient(facts, scatter, forward, Operand(found.argmax), numbering=found.argmax_numbering)


def _indices(facts: Facts, scatter: Scatter) -> Indices:
    try:
        return indices(facts, scatter.recorded)
    except Refuse as refused:
        if refused.refusal.code is Code.INDICES_SOURCE:
            check_can_be_of_a_pool(facts, scatter)
        raise
