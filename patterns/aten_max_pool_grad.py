# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += grad[n, c, o]`, o running over the windows of a max pool.

Graph: PyTorch's operators, kept in domain org.pytorch.aten. ORTModule runs 2-D pools this way; the fallback modes of
the TorchScript exporter write the same for a backward call.

    y, indices = max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode)     # or 3d
    dX = max_pool2d_with_indices_backward(grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices)

The forward node may also be a MaxPool whose Indices were made plane-local.

What must hold: both nodes have the same constant windows, the indices come from the forward node and count inside
planes, and x has the shape that it pooled. Constant indices are refused: a trace through `autograd.grad` writes those
of its example into the graph.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import BackwardOp, ForwardOp, match_backward_op
from poolgrad_lowering.compiler.families.shared.matching import aten_anchors, aten_operator, pool_arguments
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node

_FORWARD_RANKS = {"max_pool2d_with_indices": 2, "max_pool3d_with_indices": 3}
_RANKS = {f"{name}_backward": rank for name, rank in _FORWARD_RANKS.items()}
_FORWARD_ARGUMENTS, _ARGUMENTS, _INDICES = 1, 2, 7


@form(
    *aten_anchors(*_RANKS),
    summary="PyTorch operators in ONNX: max_pool2d_with_indices_backward and max_pool3d_with_indices_backward",
    priority=20,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered."""
    rank = _RANKS.get(aten_operator(facts, node) or "")
    if rank is None:
        return None
    backward = BackwardOp.read(node, rank, _INDICES)
    return match_backward_op(facts, backward, _forward, pool_arguments(facts, node, backward.x, _ARGUMENTS, rank))


def _forward(facts: Facts, node: Node) -> ForwardOp | None:
    rank, x = _FORWARD_RANKS.get(aten_operator(facts, node) or ""), node.input(0)
    if rank is None or x is None:
        return None
    return ForwardOp(node, x, pool_arguments(facts, node, x, _FORWARD_ARGUMENTS, rank))
