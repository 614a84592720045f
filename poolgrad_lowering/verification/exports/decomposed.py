# SPDX-License-Identifier: Apache-2.0

"""Puts operators of training runtimes back where an export to standard ONNX has nodes in their places.

Names of values stay there, so these nodes are those between the operator's outputs and the values that the original
defines, and no operator of the dialect is among them. Whether they compute the same, only a run can tell.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import onnx
from onnx import ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.verification.graph import protos
from poolgrad_lowering.verification.graph.input_roles import ATEN

_POOL_GRADIENT = "MaxPoolGrad"
"""Alone, it is the gradient of a site, also if an export has the nodes of the lowered gradient's body in its place."""
_DOMAINS = ("", "com.microsoft", ATEN)
_DECOMPOSED = ("LayerNormalization", "SoftmaxCrossEntropyLoss")
"""Operators of ONNX that are decomposed too."""


class DecomposedNode(NamedTuple):
    """A node of the original, and the nodes of standard ONNX that the lowered model has in its place, in its order."""

    node: NodeProto
    body: tuple[NodeProto, ...]


def put_back(original: ModelProto, lowered: ModelProto) -> tuple[ModelProto, list[DecomposedNode]]:
    """Return the lowered model with the original's operators in the places of nodes of standard ONNX, and these."""
    producers = {name: node for node in lowered.graph.node for name in node.output if name}
    known = {name for node in original.graph.node for name in node.output if name}
    order = {id(node): position for position, node in enumerate(lowered.graph.node)}
    gone, in_place, found = set[int](), dict[int, NodeProto](), list[DecomposedNode]()
    for node in original.graph.node:
        pieces = _pieces(node, producers, known) if _may_be_decomposed(original, node) else []
        if not pieces:
            continue
        gone.update(map(id, pieces))
        in_place[id(producers[next(filter(None, node.output))])] = node
        found.append(DecomposedNode(node, tuple(sorted(pieces, key=lambda piece: order[id(piece)]))))
    if all(operator.node.op_type == _POOL_GRADIENT for operator in found):
        return lowered, []
    changed = deepcopy(lowered)
    kept = [
        in_place.get(id(old), new)
        for old, new in zip(lowered.graph.node, changed.graph.node, strict=True)
        if id(old) in in_place or id(old) not in gone
    ]
    protos.replace_entries(changed.graph, "node", kept)
    _restore_interface(original, changed)
    return changed, found


def _may_be_decomposed(model: ModelProto, node: NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in _DOMAINS or any((each.domain, each.name) == (domain, node.op_type) for each in model.functions):
        return False
    if domain == ATEN:
        operator = protos.text_of(node, "operator")
        return operator is not None and "max_pool" not in operator
    return (domain == "" and node.op_type in _DECOMPOSED) or not onnx.defs.has(node.op_type, domain)


def _pieces(node: NodeProto, producers: dict[str, NodeProto], known: set[str]) -> list[NodeProto]:
    """Return the lowered nodes between a node's outputs and values of the original, none without a decomposition."""
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


def _restore_interface(original: ModelProto, changed: ModelProto) -> None:
    """Put back the initializers, imports and types of outputs that the original has, and drop those of the nodes."""
    graph, before = changed.graph, original.graph
    protos.restore_initializers(before, graph, {value.name for value in graph.output})
    types = {value.name: value for value in (*before.output, *before.value_info)}
    for value in (*graph.output, *graph.value_info):
        if value.name in types:
            value.CopyFrom(types[value.name])
    dialect = [entry for entry in changed.opset_import if entry.domain == DOMAIN]
    imports = [entry for entry in original.opset_import if entry.domain != DOMAIN]
    protos.replace_entries(changed, "opset_import", [*imports, *dialect])
