# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[indices[n, c, o]] += grad[n, c, o]`, o running over the windows of a max pool.

Graph: PyTorch's backward operator as a node of the user's own, in domain npu, written by a symbolic function that was
registered with PyTorch's exporter. Also for 3-D pools.

    dX = npu::NPUMaxPool2dWithIndicesBackward <kernel_size, stride, padding, dilation, ceil_mode> (grad, x, indices)

The indices are those of a MaxPool made plane-local, or the second output of `npu::NPUMaxPool2dWithIndices`.

What must hold: both nodes have the same windows, and x has the shape that the forward node pooled. Indices of the
user's own forward node must be known to be integers of 32 or 64 bits: Ascend also has a forward pool that gives a bit
mask.
"""

from __future__ import annotations

from onnx import TensorProto

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import BackwardOp, ForwardOp, match_backward_op
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import torch_windows
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import integer, integers
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.model.windows import Windows

_DOMAIN = "npu"
_FORWARD_RANKS = {(_DOMAIN, "NPUMaxPool2dWithIndices"): 2, (_DOMAIN, "NPUMaxPool3dWithIndices"): 3}
_RANKS = {(_DOMAIN, f"{name}Backward"): rank for (_, name), rank in _FORWARD_RANKS.items()}
_LISTS = ("kernel_size", "stride", "padding", "dilation")


@form(
    *_RANKS,
    summary="A user's symbolic function: npu::NPUMaxPool2dWithIndicesBackward and NPUMaxPool3dWithIndicesBackward",
    priority=40,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered."""
    if facts.is_function(node):
        return None
    rank = _RANKS[node.op]
    return match_backward_op(facts, BackwardOp.read(node, rank), _forward, _windows(node, rank))


def _forward(facts: Facts, node: Node) -> ForwardOp | None:
    rank, x, recorded = _FORWARD_RANKS.get(node.op), node.input(0), node.output(1)
    if rank is None or x is None or recorded is None or facts.is_function(node):
        return None
    element_type = facts.element_type(recorded)
    if element_type not in (TensorProto.INT32, TensorProto.INT64):
        what = "'{}' is {}, not known to hold indices"
        raise Refuse(Code.INDICES_SOURCE, what, recorded.name, type_name(element_type))
    return ForwardOp(node, x, _windows(node, rank))


def _windows(node: Node, rank: int) -> Windows:
    attributes = torch_windows(rank, [integers(node, name, []) for name in _LISTS], ceil=integer(node, "ceil_mode", 0))
    if attributes is None:
        raise Refuse(Code.POOL_ATTRIBUTES, "'{}' has attributes that are malformed or out of range", node.label)
    return Windows(attributes)
