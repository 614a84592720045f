# SPDX-License-Identifier: Apache-2.0

"""Makes the keys of two units comparable where a node of the lowered model lacks outputs that nothing reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType

from onnx import NodeProto

from poolgrad_lowering.verification.graph.flat import FlatNode, Unit, node_key

_REQUIRED_OUTPUTS: Mapping[str, int] = MappingProxyType({"Dropout": 1, "MaxPool": 1})
"""Operators whose outputs do not depend on which further outputs a node has. (Those of BatchNormalization do.)"""


def comparable(original: Unit, lowered: Unit) -> tuple[Unit, Unit]:
    """Return the units; a node of the original gets the key of one in the lowered unit that lacks unread outputs."""
    nodes = [_like_one_of(lowered, node) for node in original.nodes]
    return replace(original, nodes=nodes), lowered


def _like_one_of(lowered: Unit, node: FlatNode) -> FlatNode:
    required = _REQUIRED_OUTPUTS.get(node.op[1], len(node.outputs)) if node.op[0] == "" else len(node.outputs)
    if node.key in lowered.order or not any(node.outputs[required:]):
        return node
    key = node_key(_without_unread(node, lowered.read, required), node.scope)
    return replace(node, key=key) if key in lowered.order else node


def _without_unread(node: FlatNode, read: Collection[str], required: int) -> NodeProto:
    """Return the node without the names of outputs after the first `required` ones that are not in `read`."""
    proto = deepcopy(node.proto)
    for position in range(required, len(proto.output)):
        if node.outputs[position] not in read:
            proto.output[position] = ""
    while len(proto.output) > required and not proto.output[-1]:
        del proto.output[-1]
    return proto
