"""PyTorch's joint graphs: dX = Reshape(ScatterElements(zeros, indices, updates, reduction="add")).

`torch.onnx.export(dynamo=True)` decomposes the backward of max_pool into a scatter of dY onto zeros, one row per
(n, c) plane, by the pool's Indices made plane-local; or, written by hand, a flat scatter by whole-tensor Indices.
The views around it come and go with the optimiser, half types are scattered in float32 between two casts, 1-D and
unbatched pools wrap everything in Unsqueeze and Squeeze. A scatter that adds in a half type itself is lowered too:
the lowered node adds in float32 and rounds once, where the scatter rounded every sum. What is proven here: the base
is all zero, a row is a plane, index and update of the same element meet, and the result is seen in x's shape.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.matching.maxpool_scatter import maxpool_scatter
from poolgrad_lowering.matching.scatter import Scatter, check_rows_are_planes


def match(facts: Facts, node: Node) -> PoolGradient:
    """The gradient that a ScatterElements node computes, or why it is not one that can be lowered."""
    return maxpool_scatter(facts, Scatter.read(node), check_rows_are_planes)


PATTERN = Pattern(
    name="torch_scatter_add",
    anchors=(("", "ScatterElements"),),
    summary="PyTorch joint graphs: ScatterElements(reduction=add) of dY onto zeros by a MaxPool's Indices",
    match=match,
    priority=60,
)
