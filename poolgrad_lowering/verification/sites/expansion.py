# SPDX-License-Identifier: Apache-2.0

"""Finds gradients of the dialect that were expanded to the standard nodes of their function body.

The nodes may differ from those of the body in names, and have initializers for its Constant nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import FunctionProto, GraphProto, TensorProto

from poolgrad_lowering.dialect import TYPES, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.op import VALUE
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import holds, same_operator, subgraphs

_GRADIENT = "AdaptiveMaxPool3DGrad"
"""The bodies of all gradients have the same nodes."""


@dataclass(frozen=True)
class ExpandedGradient:
    """A gradient as the nodes of its function body: its result, the incoming gradient, and the keys of the nodes."""

    result: str
    grad: str
    nodes: frozenset[bytes]


def expanded_gradients(
    nodes: Iterable[FlatNode], constants: Mapping[str, TensorProto], opset: int
) -> list[ExpandedGradient]:
    """Return the expanded gradients among the nodes.

    `constants` are the initializers that the nodes can read; `opset` is the version of the default domain.
    """
    scopes: dict[str, list[FlatNode]] = {}
    for node in (node for node in nodes if node.outputs):
        scopes.setdefault(node.scope, []).append(node)
    found = []
    for body in _bodies(opset) if scopes else ():
        for own in scopes.values():
            values = {name: value for node in own for name, value in zip(node.proto.input, node.inputs, strict=True)}
            stored = {name: constants[value] for name, value in values.items() if value in constants}
            for node in own:
                match = _Match(body, own, stored)
                if match.ends_at(node):
                    grad = values[match.bound[body.input[1]]]
                    found.append(ExpandedGradient(node.outputs[0], grad, frozenset(match.nodes)))
    return found


def _bodies(opset: int) -> list[FunctionProto]:
    """Return the function bodies that a gradient can have at this opset."""
    found: list[FunctionProto] = []
    for types in (*({element} for element in TYPES[VALUE]), TYPES[VALUE]):
        try:
            body = function_body(_GRADIENT, opset, types)
        except NoFunctionBodyError:
            continue
        if body not in found:
            found.append(body)
    return found


class _Match:
    """A body laid onto the nodes of one scope, from its output backwards.

    `bound` are the names in the scope by those in the body; `nodes` are the keys of the nodes that it was laid onto.
    """

    def __init__(self, body: FunctionProto, nodes: Sequence[FlatNode], constants: Mapping[str, TensorProto]) -> None:
        self._inputs, self._output = list(body.input), body.output[0]
        self._body = {name: node for node in body.node for name in node.output}
        self._producers = {name: node for node in nodes for name in node.proto.output if name}
        self._constants = constants
        self.bound: dict[str, str] = {}
        self.nodes: set[bytes] = set()

    def ends_at(self, node: FlatNode) -> bool:
        """Whether the nodes compute the first output of `node` as the body computes its output."""
        return self._same(self._output, node.proto.output[0]) and all(name in self.bound for name in self._inputs)

    def _same(self, name: str, value: str) -> bool:
        if name in self.bound or name in self._inputs:
            return bool(value) and self.bound.setdefault(name, value) == value
        node, found = self._body[name], self._producers.get(value)
        if found is None:
            self.bound[name] = value
            return node.op_type == "Constant" and holds(
                self._constants.get(value), onnx.numpy_helper.to_array(node.attribute[0].t)
            )
        if not same_operator(node, found.proto):
            return False
        self.nodes.add(found.key)
        self.bound.update(zip(node.output, found.proto.output, strict=True))
        return all(map(self._same, node.input, found.proto.input)) and all(
            self._same_graph(one, other)
            for (_, one), (_, other) in zip(subgraphs(node), subgraphs(found.proto), strict=True)
        )

    def _same_graph(self, one: GraphProto, other: GraphProto) -> bool:
        if len(one.node) != len(other.node) or other.initializer or not _same_interface(one, other):
            return False
        names = dict(zip(_names(one), _names(other), strict=True))

        def same(name: str, value: str) -> bool:
            return names[name] == value if name in names else self._same(name, value)

        for node, found in zip(one.node, other.node, strict=True):
            if not same_operator(node, found) or not all(map(same, node.input, found.input)):
                return False
            names.update(zip(node.output, found.output, strict=True))
        return all(map(same, (value.name for value in one.output), (value.name for value in other.output)))


def _names(graph: GraphProto) -> list[str]:
    return [value.name for value in graph.input]


def _same_interface(one: GraphProto, other: GraphProto) -> bool:
    types = [
        [[value.type.SerializeToString(deterministic=True) for value in values] for values in (each.input, each.output)]
        for each in (one, other)
    ]
    return types[0] == types[1]
