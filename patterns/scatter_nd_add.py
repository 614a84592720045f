"""PyTorch's `index_put(accumulate=True)`: dX = Reshape(ScatterND(zeros, indices, updates, reduction="add")).

Two spellings come out of the dynamo exporter: on the flattened tensor, by plane-local Indices plus a constant table of
each plane's first index; and on rows, one per (n, c) plane, by a constant table of the rows' numbers joined to the
Indices. Both tables are checked value by value. What else has to hold, and what happens to half types, is as for
ScatterElements (`torch_scatter_add`).
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.matching.maxpool_scatter import maxpool_scatter
from poolgrad_lowering.matching.scatter import Scatter
from poolgrad_lowering.matching.scatter_nd import check_nd_rows_are_planes, within_rows


def match(facts: Facts, node: Node) -> PoolGradient:
    """The gradient that a ScatterND node computes, or why it is not one that can be lowered."""
    return maxpool_scatter(facts, within_rows(Scatter.read(node)), check_nd_rows_are_planes)


PATTERN = Pattern(
    name="scatter_nd_add",
    anchors=(("", "ScatterND"),),
    summary="PyTorch joint graphs: ScatterND(reduction=add) of dY onto zeros by a MaxPool's Indices and fixed tables",
    match=match,
    priority=60,
)
