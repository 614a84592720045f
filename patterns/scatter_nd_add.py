# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += dY[n, c, o]`, o running over the windows of a MaxPool.

Graph: PyTorch's `index_put(accumulate=True)`, which the dynamo exporter writes in two ways.

    dX = Reshape(ScatterND(flat zeros, indices + first index of each plane, dY, reduction="add"))
    dX = Reshape(ScatterND(zeros as rows, Concat(numbers of rows, indices), dY, reduction="add"))

What must hold: the first indices and the numbers of the rows are constant tables, which are checked value by value; a
row is one (n, c) plane. All else, half types too, is as for `torch_scatter_add`.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.families.gradient import Pattern
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.max_pool.matching.maxpool_scatter import maxpool_scatter
from poolgrad_lowering.ir.scopes import Node


def match(facts: Facts, node: Node) -> MaxPoolGradient:
    """The gradient that a ScatterND node computes; raises `Refuse` where it cannot be lowered."""
    return maxpool_scatter(facts, node)


PATTERN = Pattern(
    name="scatter_nd_add",
    anchors=(("", "ScatterND"),),
    summary="PyTorch joint graphs: ScatterND(reduction=add) of dY onto zeros by a MaxPool's Indices and fixed tables",
    match=match,
    priority=60,
)
