# SPDX-License-Identifier: Apache-2.0

"""Finds the operators of training runtimes that a model has as nodes of standard ONNX, and puts them back.

Names of values stay where such an operator is rewritten. So its nodes are those between its outputs and the values that
the original defines, and no operator of the dialect is among them. What is put back is compared byte for byte with the
original like the rest; whether the nodes compute the same, only a run can tell.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import onnx
from onnx import ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.verification.graph.input_roles import ATEN
from poolgrad_lowering.verification.graph.protos import nested_nodes, replace_entries, text_of

POOL_GRADIENT = "MaxPoolGrad"
"""Alone, it is the gradient of a site, also if an export has the nodes of the lowered gradient's body in its place."""
_DOMAINS = ("", "com.microsoft", ATEN)
DECOMPOSED = ("LayerNormalization", "SoftmaxCrossEntropyLoss")
"""Operators of ONNX that are rewritten too."""


@dataclass(frozen=True)
class RewrittenNode:
    """A node of the original, and the nodes of standard ONNX that the lowered model has in its place, in its order."""

    node: NodeProto
    body: tuple[NodeProto, ...]


def put_back(original: ModelProto, lowered: ModelProto) -> tuple[ModelProto, list[RewrittenNode]]:
    """Return the lowered model with the original's operators in the places of nodes of standard ONNX, and these."""
    wanted = [node for node in original.graph.node if _may_be_rewritten(original, node)]
    producers = {name: node for node in lowered.graph.node for name in node.output if name}
    known = {name for node in original.graph.node for name in node.output if name}
    order = {id(node): position for position, node in enumerate(lowered.graph.node)}
    gone, in_place, found = set[int](), dict[int, NodeProto](), list[RewrittenNode]()
    for node in wanted:
        pieces = _pieces(node, producers, known)
        if not pieces:
            continue
        gone.update(map(id, pieces))
        in_place[id(producers[next(filter(None, node.output))])] = node
        found.append(RewrittenNode(node, tuple(sorted(pieces, key=lambda piece: order[id(piece)]))))
    if all(operator.node.op_type == POOL_GRADIENT for operator in found):
        return lowered, []
    changed = deepcopy(lowered)
    kept = [
        in_place.get(id(old), new)
        for old, new in zip(lowered.graph.node, changed.graph.node, strict=True)
        if id(old) in in_place or id(old) not in gone
    ]
    replace_entries(changed.graph, "node", kept)
    _restore_declarations(original, changed)
    return changed, found


def _may_be_rewritten(model: ModelProto, node: NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in _DOMAINS or any((each.domain, each.name) == (domain, node.op_type) for each in model.functions):
        return False
    if domain == ATEN:
        operator = text_of(node, "operator")
        return operator is not None and "max_pool" not in operator
    return (domain == "" and node.op_type in DECOMPOSED) or not onnx.defs.has(node.op_type, domain)


def _pieces(node: NodeProto, producers: dict[str, NodeProto], known: set[str]) -> list[NodeProto]:
    """Return the lowered nodes between a node's outputs and values of the original, none if it is no rewrite."""
    pending = [name for name in node.output if name in producers]
    pieces: dict[int, NodeProto] = {}
    while pending:
        name = pending.pop()
        if name in known and name not in node.output:
            continue
        piece = producers.get(name)
        if piece is None or id(piece) in pieces:
            continue
        if piece.domain == DOMAIN or (piece.domain, piece.op_type) == (node.domain, node.op_type):
            return []
        pieces[id(piece)] = piece
        pending += piece.input
    return list(pieces.values())


def _restore_declarations(original: ModelProto, changed: ModelProto) -> None:
    """Put back the initializers, imports and types of outputs that the original has, and drop those of the rewrite."""
    graph, before = changed.graph, original.graph
    read = {name for node in nested_nodes(graph.node) for name in node.input} | {v.name for v in graph.output}
    theirs = {tensor.name for tensor in before.initializer}
    own = {tensor.name: tensor for tensor in graph.initializer if tensor.name in theirs or tensor.name in read}
    missing = {tensor.name: tensor for tensor in before.initializer if tensor.name in read and tensor.name not in own}
    kept = own | missing
    stored = [kept[tensor.name] for tensor in before.initializer if tensor.name in kept]
    stored += [tensor for name, tensor in own.items() if name not in theirs]
    replace_entries(graph, "initializer", stored)
    types = {value.name: value for value in (*before.output, *before.value_info)}
    for value in (*graph.output, *graph.value_info):
        if value.name in types:
            value.CopyFrom(types[value.name])
    dialect = [entry for entry in changed.opset_import if entry.domain == DOMAIN]
    imports = [entry for entry in original.opset_import if entry.domain != DOMAIN]
    replace_entries(changed, "opset_import", [*imports, *dialect])
