# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += grad[n, c, o]`, o running over the windows of an adaptive pool.

Graph: PyTorch's operators, kept in domain org.pytorch.aten.

    y, indices = adaptive_max_pool2d(x, output_size)     # or 3d
    dX = adaptive_max_pool2d_backward(grad, x, indices)

Where an exporter wrote a forward pool whose sizes divide as MaxPool, its Indices made plane-local serve as well. Of an
adaptive pool whose sizes do not divide, this is the only form that is one operator.

What must hold: the indices come from such a node and count inside planes, and x has the shape that it pooled.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import BackwardOp, ForwardOp, match_backward_op
from poolgrad_lowering.compiler.families.shared.matching import aten_anchors, aten_operator
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import number_list
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import AdaptiveWindows, Windows

_FORWARD_RANKS = {"adaptive_max_pool2d": 2, "adaptive_max_pool3d": 3}
_RANKS = {f"{name}_backward": rank for name, rank in _FORWARD_RANKS.items()}


@form(
    *aten_anchors(*_RANKS),
    summary="PyTorch operators in ONNX: adaptive_max_pool2d_backward and adaptive_max_pool3d_backward",
    priority=10,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered."""
    rank = _RANKS.get(aten_operator(facts, node) or "")
    if rank is None:
        return None
    return match_backward_op(facts, BackwardOp.read(node, rank), _forward)


def _forward(facts: Facts, node: Node) -> ForwardOp | None:
    rank, x, given = _FORWARD_RANKS.get(aten_operator(facts, node) or ""), node.input(0), node.input(1)
    if rank is None or x is None or given is None:
        return None
    sizes = number_list(facts, node, 1)
    if sizes is None:
        return ForwardOp(node, x, Windows(AdaptiveWindows()))
    if len(sizes) != rank or min(sizes) < 1:
        raise Refuse(Code.POOL_ATTRIBUTES, "'{}' has output_size {}", node.label, sizes)
    return ForwardOp(node, x, Windows(AdaptiveWindows(), static_dims(sizes)))
