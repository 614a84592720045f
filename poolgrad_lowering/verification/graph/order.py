# SPDX-License-Identifier: Apache-2.0

"""Sorts the nodes of a model: tools leave lists of nodes that are not in topological order, and onnxruntime sorts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy

import networkx as nx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from poolgrad_lowering.verification.graph.protos import replace_entries, subgraphs


def in_order(model: ModelProto) -> ModelProto:
    """Return the model with every list of nodes in topological order; the same object if they all are.

    Nodes that could be read before each other keep their order. Nodes of a cycle stay behind all others.
    """
    needs = (enumerate(_needs(scope.node)) for scope in scopes_of(model))
    if all(before < position for nodes in needs for position, needed in nodes for before in needed):
        return model
    ordered = deepcopy(model)
    for scope in scopes_of(ordered):
        replace_entries(scope, "node", [scope.node[position] for position in _order(scope.node)])
    return ordered


def scopes_of(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield the main graph, the functions and all subgraphs, inner ones first."""
    yield from _nested(model.graph)
    for function in model.functions:
        yield from _nested(function)


def _nested(scope: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    for node in scope.node:
        for _, graph in subgraphs(node):
            yield from _nested(graph)
    yield scope


def _order(nodes: Sequence[NodeProto]) -> list[int]:
    """Return the positions in topological order: of the nodes that are ready, the first in the list comes first."""
    needs = _needs(nodes)
    graph = nx.DiGraph((before, position) for position, needed in enumerate(needs) for before in needed)
    graph.add_nodes_from(range(len(needs)))
    found: list[int] = []
    with suppress(nx.NetworkXUnfeasible):  # the nodes behind a cycle are left
        for position in nx.lexicographical_topological_sort(graph):
            found.append(position)  # noqa: PERF402 - what comes before the error is kept
    return found + sorted(set(range(len(needs))).difference(found))


def _needs(nodes: Sequence[NodeProto]) -> list[set[int]]:
    """Return for each node the positions of the nodes whose values it or its subgraphs read."""
    backwards = reversed([*enumerate(nodes)])  # of several nodes that define a value, the first one counts
    producer = {name: position for position, node in backwards for name in node.output if name}
    return [{producer[name] for name in _read(node) if name in producer} for node in nodes]


def _read(node: NodeProto) -> set[str]:
    """Return the names that a node and its subgraphs read from the scope of the node."""
    found = set(node.input)
    for _, graph in subgraphs(node):
        own = {name for inner in graph.node for name in inner.output}
        own.update([*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)])
        inside = {name for inner in graph.node for name in _read(inner)} | {value.name for value in graph.output}
        found |= inside - own
    return found
