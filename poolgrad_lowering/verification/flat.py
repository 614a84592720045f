"""One flat list of nodes for a graph with its subgraphs, or for a function, so that two can be laid side by side.

A value is known by its name, one of a subgraph by the subgraph's place and its name. Written for the check alone: it
shares nothing with the index that the compiler works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.diagnostics.errors import InvalidModelError
from poolgrad_lowering.diagnostics.faults import Fault

MAIN = "main"


@dataclass(frozen=True)
class FlatNode:
    """A node and its values. `captured` is what its subgraphs read from around them.

    `key` are its bytes without the nodes, initializers and value_infos of its subgraphs, which are compared on their
    own: two nodes with one key are the same node.
    """

    proto: NodeProto
    scope: str
    key: bytes
    reads: tuple[str, ...]
    captured: tuple[str, ...]
    makes: tuple[str, ...]

    @property
    def op(self) -> tuple[str, str]:
        """Domain (the default one as the empty string) and op type."""
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain, self.proto.op_type

    @property
    def label(self) -> str:
        """The node's name, or its first output where it has none."""
        return self.proto.name or next(iter(filter(None, self.makes)), self.proto.op_type)


@dataclass
class Unit:
    """A flat graph or function: subgraphs' nodes stand before the node that holds them.

    `inputs` come from outside (of subgraphs too), `results` are read from outside. `scopes` are the protos by place.
    """

    name: str
    nodes: list[FlatNode] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    scopes: dict[str, GraphProto | FunctionProto] = field(default_factory=dict)

    @cached_property
    def order(self) -> dict[bytes, int]:
        """Where each node stands, by its key."""
        return {node.key: position for position, node in enumerate(self.nodes)}


def main_unit(model: ModelProto) -> Unit:
    """The main graph; what a training step reads of it counts among its results."""
    unit = Unit(MAIN)
    _add_scope(unit, model.graph, MAIN, {})
    graphs = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    read = {name for graph in graphs for node in graph.node for name in node.input}
    unit.results |= read & {value for node in unit.nodes for value in node.makes}
    return unit


def function_unit(function: FunctionProto) -> Unit:
    """The body of a model function."""
    unit = Unit(function_name(function))
    _add_scope(unit, function, unit.name, {})
    return unit


def function_name(function: FunctionProto) -> str:
    """What a function is called in results: domain, name and, where it has one, overload."""
    overload = f":{function.overload}" if function.overload else ""
    return f"function {function.domain}.{function.name}{overload}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that a node holds, with the names of their attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def _add_scope(unit: Unit, scope: GraphProto | FunctionProto, path: str, around: Mapping[str, str]) -> dict[str, str]:
    """Add a scope's nodes; returns the values that are known in it, by name."""
    unit.scopes[path] = scope
    prefix = "" if path == unit.name else f"{path}: "
    known = dict(around)

    def define(names: Iterable[str]) -> list[str]:
        named = [name for name in _texts(names) if name]
        known.update({name: prefix + name for name in named})
        return [prefix + name for name in named]

    if isinstance(scope, GraphProto):
        constants = {tensor.name: tensor for tensor in scope.initializer}
        define(constants)
        unit.constants.update((prefix + name, tensor) for name, tensor in constants.items())
        sparse = [entry.values.name for entry in scope.sparse_initializer]
        unit.inputs.update(define([*(value.name for value in scope.input), *sparse]))
        outputs = [value.name for value in scope.output]
    else:
        unit.inputs.update(define(scope.input))
        outputs = list(scope.output)
    for node in scope.node:
        _add_node(unit, node, path, prefix, known)
        define(node.output)
    unit.results.update(known.get(name, name) for name in outputs)
    return known


def _add_node(unit: Unit, node: NodeProto, path: str, prefix: str, known: Mapping[str, str]) -> None:
    label = next(iter(filter(None, node.output)), node.name)
    captured: list[str] = []
    for name, graph in subgraphs(node):
        first = len(unit.nodes)
        inside = _add_scope(unit, graph, f"{path}/{label}.{name}", known)
        visible = set(known.values())
        read = {value for inner in unit.nodes[first:] for value in inner.reads}
        read.update(inside.get(value.name, "") for value in graph.output)
        captured.extend(sorted(read & visible))
    unit.nodes.append(
        FlatNode(
            node,
            path,
            _key(node),
            tuple(known.get(name, prefix + name) if name else "" for name in _texts(node.input)),
            tuple(dict.fromkeys(captured)),
            tuple(prefix + name if name else "" for name in _texts(node.output)),
        )
    )


def _texts(names: Iterable[str | bytes]) -> list[str]:
    """Names as protobuf gives them: as bytes where they are no text. Raises `InvalidModelError` for those."""
    found = []
    for name in names:
        if isinstance(name, bytes):
            raise InvalidModelError(Fault.NAME_NOT_UTF8, "a model", f"it has the name {name!r}")
        found.append(name)
    return found


def _key(node: NodeProto) -> bytes:
    if not any(True for _ in subgraphs(node)):
        return bytes(node.SerializeToString(deterministic=True))
    bare = NodeProto()
    bare.CopyFrom(node)
    for _, graph in subgraphs(bare):
        for entries in (graph.node, graph.initializer, graph.value_info):
            del entries[:]
    return bytes(bare.SerializeToString(deterministic=True))
