# SPDX-License-Identifier: Apache-2.0

"""A graph with its subgraphs, or a function, as one flat list of nodes, so that two of them can be compared.

A value is identified by its name, a value of a subgraph by the path of the subgraph and its name. This representation
is independent of the compiler's index.
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
    """A node and its values. `captured` are the values of enclosing scopes that its subgraphs use.

    `key` are the node's bytes without the nodes, initializers and value_infos of its subgraphs, which are compared
    separately. Two nodes with the same key are the same node.
    """

    proto: NodeProto
    scope: str
    key: bytes
    inputs: tuple[str, ...]
    captured: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def op(self) -> tuple[str, str]:
        """Domain (the default one as the empty string) and op type."""
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain, self.proto.op_type

    @property
    def label(self) -> str:
        """The node's name, or its first output if it has no name."""
        return self.proto.name or next(iter(filter(None, self.outputs)), self.proto.op_type)


@dataclass
class Unit:
    """A flat graph or function: nodes of subgraphs precede the node that contains them.

    `inputs` and `results` are the inputs and outputs, including those of subgraphs. `scopes` are the protos by path.
    """

    name: str
    nodes: list[FlatNode] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    scopes: dict[str, GraphProto | FunctionProto] = field(default_factory=dict)

    @cached_property
    def order(self) -> dict[bytes, int]:
        """The position of each node, by its key."""
        return {node.key: position for position, node in enumerate(self.nodes)}


def main_unit(model: ModelProto) -> Unit:
    """Return the main graph as a unit; values that training steps use are among its results."""
    unit = Unit(MAIN)
    _add_scope(unit, model.graph, MAIN, {})
    graphs = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    read = {name for graph in graphs for node in graph.node for name in node.input}
    unit.results |= read & {value for node in unit.nodes for value in node.outputs}
    return unit


def function_unit(function: FunctionProto) -> Unit:
    """Return the body of a model function as a unit."""
    unit = Unit(function_name(function))
    _add_scope(unit, function, unit.name, {})
    return unit


def function_name(function: FunctionProto) -> str:
    """Return a function's name in results: domain, name and, if it has one, overload."""
    overload = f":{function.overload}" if function.overload else ""
    return f"function {function.domain}.{function.name}{overload}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the subgraphs of a node, with the names of their attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def _add_scope(unit: Unit, scope: GraphProto | FunctionProto, path: str, around: Mapping[str, str]) -> dict[str, str]:
    """Add a scope's nodes to the unit; return the values that are visible in the scope, by name."""
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
        read = {value for inner in unit.nodes[first:] for value in inner.inputs}
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
    """Return names as text. Raises `InvalidModelError` for bytes, which protobuf returns if a name is not UTF-8."""
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
