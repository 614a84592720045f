# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += dY[n, c, o]`, o running over the windows of a MaxPool.

Graph: `torch.onnx.export(dynamo=True)` decomposes the backward of max_pool into a scatter onto rows, one per (n, c)
plane. Users also write one flat scatter by whole-tensor Indices.

    indices = Indices of MaxPool − first index of each plane
    dX = Reshape(ScatterElements(zeros as rows, Reshape(indices), Reshape(dY), axis=1, reduction="add"))

Optimisers add and remove the views around it. Half types are scattered in float32 between two Casts. 1-D and unbatched
pools are surrounded by Unsqueeze and Squeeze.

What must hold: the base is all zero, a row is a plane, index and update of one element stand at the same place, and the
result is seen in x's shape. A scatter that adds in a half type is lowered too: the lowered node adds in float32 and
rounds once, where the scatter rounds every sum.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.families.gradient import Pattern
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.max_pool.matching.maxpool_scatter import maxpool_scatter
from poolgrad_lowering.ir.scopes import Node


def match(facts: Facts, node: Node) -> MaxPoolGradient:
    """The gradient that a ScatterElements node computes; raises `Refuse` where it cannot be lowered."""
    return maxpool_scatter(facts, node)


PATTERN = Pattern(
    name="torch_scatter_add",
    anchors=(("", "ScatterElements"),),
    summary="PyTorch joint graphs: ScatterElements(reduction=add) of dY onto zeros by a MaxPool's Indices",
    match=match,
    priority=60,
)
