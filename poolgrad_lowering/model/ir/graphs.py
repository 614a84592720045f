# SPDX-License-Identifier: Apache-2.0

"""The graphs of a model as messages: the main graph, its subgraphs, and which values something reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

HOLDERS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""ONNX's own operators with subgraphs. Most nodes are of another one, and reading a node's attributes takes time."""


def is_standard(node: NodeProto) -> bool:
    """Whether the node's operator is one of ONNX's own."""
    return node.domain in ("", "ai.onnx")


def subgraphs(attributes: Iterable[AttributeProto]) -> Iterator[tuple[str, GraphProto]]:
    """Yield the name and graph of each graph that attributes of type GRAPH or GRAPHS hold."""
    for attribute in attributes:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes, and those in their subgraphs."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node.attribute):
            yield from with_inner(graph.node)


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and its subgraphs at any depth."""
    yield graph
    for node in [node for node in graph.node if node.op_type in HOLDERS or node.domain]:
        for inner in inner_graphs(node):
            yield from graphs(inner)


def inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs of a node, without those inside them."""
    if node.op_type in HOLDERS or node.domain:
        yield from (graph for _, graph in subgraphs(node.attribute))


def names_read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Yield the names that nodes read, in their subgraphs those of values around these."""
    for node in nodes:
        yield from node.input
        if node.op_type in HOLDERS or node.domain:
            yield from names_captured(node)


def names_captured(node: NodeProto) -> Iterator[str]:
    """Yield the names in the subgraphs of a node that these do not define themselves."""
    for graph in inner_graphs(node):
        own, used = names_defined(graph), (*names_read(graph.node), *(value.name for value in graph.output))
        yield from (name for name in used if name not in own)


def names_defined(graph: GraphProto) -> set[str]:
    """Return the names of a graph's own values: inputs, initializers and results of nodes."""
    given = (entry.name for entries in (graph.input, graph.initializer) for entry in entries)
    return {*given, *(name for node in graph.node for name in node.output)}


def names_of(graph: GraphProto) -> set[str]:
    """Return all names of values and nodes in a graph and its subgraphs."""
    found: set[str] = set()
    for scope in graphs(graph):
        for entries in (scope.input, scope.output, scope.initializer, scope.value_info):
            found.update([entry.name for entry in entries])
        for node in scope.node:
            found.add(node.name)
            found.update(node.input)
            found.update(node.output)
    return found


def rename(graph: GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename values of a graph, also where its subgraphs read them."""
    for entries in (graph.input, graph.output, graph.value_info, graph.initializer):
        for entry in entries:
            entry.name = renamed.get(entry.name, entry.name)
    rename_in(graph.node, renamed)


def rename_in(nodes: Iterable[NodeProto], renamed: Mapping[str, str]) -> None:
    """Rename values that nodes make, and that they or their subgraphs read."""
    for node in nodes:
        for listed in (node.input, node.output):
            if any(name in renamed for name in listed):
                listed[:] = [renamed.get(name, name) for name in listed]
        for inner in inner_graphs(node):
            own = names_defined(inner)
            rename(inner, {name: new for name, new in renamed.items() if name not in own})


def opset_of(model: ModelProto) -> int:
    """Return the imported version of ONNX's own operators, 0 if they are not imported."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def inputs_to_feed(model: ModelProto) -> list[ValueInfoProto]:
    """Return the graph inputs without a default: ATC makes constants of the others."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


def fresh(name: str, taken: set[str]) -> str:
    """Return the name, or the name with a number that makes it different from `taken`, to which it is added."""
    chosen, number = name, 2
    while chosen in taken:
        chosen, number = f"{name}_{number}", number + 1
    taken.add(chosen)
    return chosen


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield the nodes of the main graph, the functions and all subgraphs."""
    return with_inner(chain(model.graph.node, *(function.node for function in model.functions)))


def domains_used(model: ModelProto) -> set[str]:
    """Return the domains of a model's functions, and of the nodes in its graphs and functions."""
    return {node.domain for node in all_nodes(model)} | {function.domain for function in model.functions}


def remove_entries(entries: Any, is_gone: Callable[[Any], bool]) -> None:
    """Remove the messages of a repeated field for which `is_gone` is true, in place."""
    for position in reversed(range(len(entries))):
        if is_gone(entries[position]):
            del entries[position]
