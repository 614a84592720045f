# SPDX-License-Identifier: Apache-2.0

"""A graph with its subgraphs, or a function, as one flat list of nodes, so that two of them can be compared.

A value is identified by its name, a value of a subgraph by the path of the subgraph and its name. This representation
is independent of the compiler's index.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.model.diagnostics.errors import InvalidModelError
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.ir.graphs import subgraphs

MAIN = "main"


class FlatNode(NamedTuple):
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

    @cached_property
    def names(self) -> set[str]:
        """The names of all values, in any scope, without the paths of their scopes."""
        names = {name for node in self.nodes for name in (*node.proto.input, *node.proto.output)}
        for scope in self.scopes.values():
            if isinstance(scope, GraphProto):
                names.update(value.name for value in (*scope.input, *scope.output))
                names.update(tensor.name for tensor in scope.initializer)
        return names


def main_unit(model: ModelProto) -> Unit:
    """Return the main graph as a unit; values that training steps use are among its results."""
    unit = Unit(MAIN)
    _add_scope(unit, model.graph, MAIN, ChainMap())
    graphs = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    read = {name for graph in graphs for node in graph.node for name in node.input}
    unit.results |= read & {value for node in unit.nodes for value in node.outputs}
    return unit


def function_unit(function: FunctionProto) -> Unit:
    """Return the body of a model function as a unit."""
    unit = Unit(function_name(function))
    _add_scope(unit, function, unit.name, ChainMap())
    return unit


def function_name(function: FunctionProto) -> str:
    """Return a function's name in results: domain, name and, if it has one, overload."""
    return called_name(NodeProto(domain=function.domain, op_type=function.name, overload=function.overload))


def called_name(node: NodeProto) -> str:
    """Return the name in results of the function that a node calls, if there is one."""
    return f"function {node.domain}.{node.op_type}{f':{node.overload}' if node.overload else ''}"


class _Scope:
    """The names of a scope while its nodes are added to a unit. A scope inside another one sees the names of that too.

    `visible` are the values of this scope and of those around it, by name. `values` are its own, `captured` those of
    scopes around it that have been read, in scopes inside it too.
    """

    def __init__(self, prefix: str, around: ChainMap[str, str]) -> None:
        self._prefix = prefix
        self.visible = around.new_child()
        self.values: set[str] = set()
        self.captured: set[str] = set()

    def define(self, names: Iterable[str]) -> list[str]:
        """Make names visible, and return the values."""
        made = {name: self._prefix + name for name in _texts(names) if name}
        self.visible.update(made)
        self.values.update(made.values())
        return list(made.values())

    def read(self, name: str) -> str | None:
        """Return the value of this name, or None if none is visible."""
        own = self.visible.maps[0].get(name)  # a look-up in one dictionary: most names are of the scope itself
        if own is not None:
            return own
        if (value := self.visible.get(name)) is not None:
            self.captured.add(value)
        return value


def _add_scope(unit: Unit, scope: GraphProto | FunctionProto, path: str, around: ChainMap[str, str]) -> set[str]:
    """Add a scope's nodes to the unit; return the values of the scopes around it that it reads."""
    while path in unit.scopes:
        path += "'"  # names can contain what separates the parts of a path
    unit.scopes[path] = scope
    prefix = "" if path == unit.name else f"{path}: "
    names = _Scope(prefix, around)
    if isinstance(scope, GraphProto):
        constants = {tensor.name: tensor for tensor in scope.initializer}
        names.define(constants)
        unit.constants.update((prefix + name, tensor) for name, tensor in constants.items())
        sparse = [entry.values.name for entry in scope.sparse_initializer]
        unit.inputs.update(names.define([*(value.name for value in scope.input), *sparse]))
        outputs = [value.name for value in scope.output]
    else:
        unit.inputs.update(names.define(scope.input))
        outputs = list(scope.output)
    for node in scope.node:
        _add_node(unit, node, path, prefix, names)
        names.define(node.output)
    unit.results.update(names.read(name) or name for name in outputs)
    return names.captured


def _add_node(unit: Unit, node: NodeProto, path: str, prefix: str, names: _Scope) -> None:
    label = next(iter(filter(None, node.output)), node.name)
    captured: list[str] = []
    outside = len(unit.nodes)
    for name, graph in subgraphs(node.attribute):
        read = _add_scope(unit, graph, f"{path}/{label}.{name}", names.visible)
        captured.extend(sorted(read))
        names.captured |= read - names.values
    key = node_key(node, path)
    if not any(node.output):  # nodes with the same bytes would be the same node
        unit.without_outputs += 1
        key += b"%d" % unit.without_outputs
    inputs = tuple(names.read(name) or prefix + name if name else "" for name in _texts(node.input))
    outputs = tuple(prefix + name if name else "" for name in _texts(node.output))
    inside = len(unit.nodes) - outside
    unit.nodes.append(FlatNode(node, path, key, inputs, tuple(dict.fromkeys(captured)), outputs, inside))


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
    for _, graph in subgraphs(bare.attribute):
        for entries in (graph.node, graph.initializer, graph.value_info):
            del entries[:]
    return path.encode() + bytes(bare.SerializeToString(deterministic=True))
