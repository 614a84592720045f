# SPDX-License-Identifier: Apache-2.0

"""A graph with its subgraphs, or a function, as one flat list of nodes, so that two of them can be compared.

A value is identified by its name, a value of a subgraph by the path of the subgraph and its name. This representation
is independent of the compiler's index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.diagnostics.errors import InvalidModelError
from poolgrad_lowering.diagnostics.faults import Fault

MAIN = "main"


@dataclass(frozen=True)
class FlatNode:
    """A node and its values. `captured` are the values of enclosing scopes that its subgraphs use.

    `inside` is the number of nodes in its subgraphs, which are directly before it in a unit.

    `key` are the path of the node's scope and the node's bytes without its name, which has no meaning, and without the
    nodes, initializers and value_infos of its subgraphs, which are compared separately. Two nodes with the same key are
    the same node.
    """

    proto: NodeProto
    scope: str
    key: bytes
    inputs: tuple[str, ...]
    captured: tuple[str, ...]
    outputs: tuple[str, ...]
    inside: int = 0

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
    `without_outputs` is the number of nodes that have no outputs.
    """

    name: str
    nodes: list[FlatNode] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    scopes: dict[str, GraphProto | FunctionProto] = field(default_factory=dict)
    without_outputs: int = 0

    @cached_property
    def order(self) -> dict[bytes, int]:
        """The position of each node, by its key."""
        return {node.key: position for position, node in enumerate(self.nodes)}

    @cached_property
    def producers(self) -> dict[str, FlatNode]:
        """The nodes by their outputs."""
        return {value: node for node in self.nodes for value in node.outputs if value}

    @cached_property
    def read(self) -> set[str]:
        """The values that a node reads or that are results."""
        return {value for node in self.nodes for value in (*node.inputs, *node.captured)} | self.results

    @cached_property
    def defined(self) -> set[str]:
        """The values that the unit defines: inputs, constants, and outputs of nodes."""
        return {value for node in self.nodes for value in node.outputs} | self.inputs | self.constants.keys()


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


def default_opset(scope: ModelProto | FunctionProto) -> int:
    """Return the version of the default domain that a model or function imports; 1 without an import."""
    return next((entry.version for entry in scope.opset_import if entry.domain in ("", "ai.onnx")), 1)


def function_name(function: FunctionProto) -> str:
    """Return a function's name in results: domain, name and, if it has one, overload."""
    return _function_name(function.domain, function.name, function.overload)


def called_name(node: NodeProto) -> str:
    """Return the name in results of the function that a node calls, if there is one."""
    return _function_name(node.domain, node.op_type, node.overload)


def _function_name(domain: str, name: str, overload: str) -> str:
    return f"function {domain}.{name}{f':{overload}' if overload else ''}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the subgraphs of a node, with the names of their attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def _add_scope(unit: Unit, scope: GraphProto | FunctionProto, path: str, around: Mapping[str, str]) -> dict[str, str]:
    """Add a scope's nodes to the unit; return the values that are visible in the scope, by name."""
    while path in unit.scopes:
        path += "'"  # names can contain what separates the parts of a path
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
    outside = len(unit.nodes)
    for name, graph in subgraphs(node):
        first = len(unit.nodes)
        inside = _add_scope(unit, graph, f"{path}/{label}.{name}", known)
        visible = set(known.values())
        read = {value for inner in unit.nodes[first:] for value in inner.inputs}
        read.update(inside.get(value.name, "") for value in graph.output)
        captured.extend(sorted(read & visible))
    key = node_key(node, path)
    if not any(node.output):  # nodes with the same bytes would be the same node
        unit.without_outputs += 1
        key += b"%d" % unit.without_outputs
    unit.nodes.append(
        FlatNode(
            node,
            path,
            key,
            tuple(known.get(name, prefix + name) if name else "" for name in _texts(node.input)),
            tuple(dict.fromkeys(captured)),
            tuple(prefix + name if name else "" for name in _texts(node.output)),
            len(unit.nodes) - outside,
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


def node_key(node: NodeProto, path: str) -> bytes:
    """Return the bytes by which nodes are compared, see `FlatNode`; `path` is that of the node's scope."""
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("name")
    for _, graph in subgraphs(bare):
        for entries in (graph.node, graph.initializer, graph.value_info):
            del entries[:]
    return path.encode() + bytes(bare.SerializeToString(deterministic=True))


def attribute_values(node: NodeProto) -> dict[str, Any]:
    """Return the values of a node's attributes by name, without those that refer to a function's attributes."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name}
