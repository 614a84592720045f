# SPDX-License-Identifier: Apache-2.0

"""Finds what ATC cannot convert in an exported model: what GE's parser does not read, and the dialect's own rules."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto, NodeProto, TensorProto

from poolgrad_lowering.diagnostics.obstacles import NodeObstacle, Obstacle
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.op import ASCEND_TYPES
from poolgrad_lowering.ge import obstacles as ge
from poolgrad_lowering.ge.atc.rank import needs_rank_5, rank_of
from poolgrad_lowering.ge.forms import attributes_of
from poolgrad_lowering.ge.registered import PROTOTYPES
from poolgrad_lowering.ge.values import ValueTypes
from poolgrad_lowering.ir.graphs import graphs
from poolgrad_lowering.targets.table import Target


def find_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles in an exported model, in the order of its nodes; those of the whole model come first."""
    use = ge.Use(is_cut=False, core_window=target.core_window)
    found = [*ge.find_obstacles(model, types, use), *_of_dialect(model, target, types)]
    if not found:
        return []
    order = {node.name: number for number, node in enumerate(n for graph in graphs(model.graph) for n in graph.node)}
    return sorted(found, key=lambda each: order.get(each.node, -1))


def _of_dialect(model: ModelProto, target: Target, types: ValueTypes) -> Iterator[NodeObstacle]:
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.domain == DOMAIN and node.op_type in OPS:
                for code, reason in _of_node(node, target, types):
                    yield ge.obstacle(node, code, reason)


def _of_node(node: NodeProto, target: Target, types: ValueTypes) -> Iterator[tuple[Obstacle, str]]:
    support = target.operators.get(node.op_type)
    if support is None:
        yield Obstacle.WRONG_TARGET, f"{target.name} has no {node.op_type}"
        return
    if node.op_type not in PROTOTYPES:
        yield Obstacle.UNREGISTERED_OPERATOR, f"CANN has no prototype of {node.op_type} for graphs"
    if needs_rank_5(node) and rank_of(node, types.ranks) is None:
        yield Obstacle.UNKNOWN_RANK, f"the rank of '{node.input[0]}' is not known"
    if _argmax_type(node, types) == TensorProto.INT64 and TensorProto.INT64 not in support.index_types:
        yield Obstacle.ARGMAX_TYPE, f"its argmax is int64, and {target.name} takes int32 only"


def _argmax_type(node: NodeProto, types: ValueTypes) -> int | None:
    """Return the element type of a dialect node's argmax: an input of gradients, an output of pools."""
    op = OPS[node.op_type]
    number = attributes_of(node).get(op.index_type) if op.index_type else None
    if number is not None:
        return ASCEND_TYPES.get(number)
    return types.elements.get(node.input[-1])
