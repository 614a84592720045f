# SPDX-License-Identifier: Apache-2.0

"""Lays a pattern of nodes onto the nodes of a graph, whatever their values are called there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import GraphProto, NodeProto, TensorProto

from poolgrad_lowering.model.ir.graphs import subgraphs
from poolgrad_lowering.verification.arrays import NamedArrays
from poolgrad_lowering.verification.graph.protos import holds, same_operator


class Match:
    """A pattern laid onto the nodes of a graph, from its results backwards.

    `bound` are the graph's values by those of the pattern; what neither a node nor a constant of the pattern defines
    can be any value. `nodes` are the nodes of the graph that it was laid onto; `producers` and `stored` are all nodes
    and tensors of the graph by value.
    """

    def __init__(
        self,
        pattern: Iterable[NodeProto],
        constants: NamedArrays,
        producers: Mapping[str, NodeProto],
        stored: Mapping[str, TensorProto],
    ) -> None:
        self._pattern = {name: node for node in pattern for name in node.output if name}
        self._constants, self._producers, self._stored = constants, producers, stored
        self.bound = {"": ""}
        self.nodes: list[NodeProto] = []

    def computes(self, name: str, value: str) -> bool:
        """Whether the graph computes `value` as the pattern computes `name`."""
        if name in self.bound:
            return self.bound[name] == value
        node, found = self._pattern.get(name), self._producers.get(value)
        if node is None and name not in self._constants:
            self.bound[name] = value
            return bool(value)
        if found is None:
            self.bound[name] = value
            return name in self._constants and holds(self._stored.get(value), self._constants[name])
        if node is None or not same_operator(node, found):
            return False
        self.nodes.append(found)
        self.bound.update((one, other) for one, other in zip(node.output, found.output, strict=True) if one)
        pairs = zip(*(subgraphs(each.attribute) for each in (node, found)), strict=True)
        return all(map(self.computes, node.input, found.input)) and all(
            self._same_graph(one, other) for (_, one), (_, other) in pairs
        )

    def _same_graph(self, one: GraphProto, other: GraphProto) -> bool:
        interfaces = [
            [[value.type for value in values] for values in (each.input, each.output)] for each in (one, other)
        ]
        if len(one.node) != len(other.node) or other.initializer or interfaces[0] != interfaces[1]:
            return False
        names = {value.name: same.name for value, same in zip(one.input, other.input, strict=True)}

        def same(name: str, value: str) -> bool:
            return names[name] == value if name in names else self.computes(name, value)

        for node, found in zip(one.node, other.node, strict=True):
            if not same_operator(node, found) or not all(map(same, node.input, found.input)):
                return False
            names.update(zip(node.output, found.output, strict=True))
        return all(same(value.name, found.name) for value, found in zip(one.output, other.output, strict=True))
