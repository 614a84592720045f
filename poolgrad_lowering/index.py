"""The graph index: who makes and who reads each value, per scope, over the live protobuf.

A scope is the main graph, a subgraph held by a node's attribute (If, Loop, Scan and any other), or a model
function. Subgraphs see the values of the scopes around them. The index is built in one pass, linear in the
size of the model; it reads no tensor data and never opens external data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx

GraphLike = onnx.GraphProto | onnx.FunctionProto

_MAX_COPIES = 64
LOCAL = "local function"
"""In place of the default domain: the node calls a function with which the model redefines a standard operator."""


def canonical_domain(domain: str) -> str:
    """The ONNX domain with its two spellings of the default one made equal."""
    return "" if domain == "ai.onnx" else domain


@dataclass(eq=False)
class Scope:
    """One name space of values: a graph or a function, with its place in the model.

    `path` is for people: `main`, `main/if_3.then_branch`, `function npu.Foo`.
    """

    proto: GraphLike
    path: str
    parent: Scope | None
    opsets: dict[str, int]
    redefined: frozenset[str]
    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    declared: dict[str, onnx.ValueInfoProto] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    by_op: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def defines(self, name: str) -> bool:
        """Whether the value is made in this scope, not captured from around it."""
        return name in self.producers or name in self.initializers or name in self.inputs

    def resolve(self, name: str) -> Value | None:
        """The value that `name` means here, or None for the empty name and for names that nobody makes."""
        scope: Scope | None = self
        while name and scope is not None:
            if scope.defines(name):
                return Value(scope, name)
            scope = scope.parent
        return None

    def operator(self, node: onnx.NodeProto) -> tuple[str, str]:
        """Domain (canonical) and op type of one of the scope's nodes."""
        domain = canonical_domain(node.domain)
        local = domain == "" and node.op_type in self.redefined
        return LOCAL if local else domain, node.op_type

    def node(self, position: int) -> Node:
        """The node at a position of the scope's node list."""
        return Node(self, position, self.proto.node[position])

    @property
    def root(self) -> Scope:
        """The outermost scope around this one: the main graph or a function."""
        return self if self.parent is None else self.parent.root

    @property
    def opset(self) -> int:
        """The version of the default domain that this scope's nodes are written in; 0 where it is not imported."""
        return self.opsets.get("", 0)


class Use(NamedTuple):
    """One reading of a value: by a node of some scope (its own, or a subgraph that captured it).

    The position is -1 where it is read by no node: as an output of a subgraph, or by the model's training step.
    """

    scope: Scope
    position: int


class Value(NamedTuple):
    """A value, by the scope that defines it and its name there."""

    scope: Scope
    name: str

    @property
    def producer(self) -> Node | None:
        """The node that makes it; None for inputs and initializers."""
        position = self.scope.producers.get(self.name)
        return None if position is None else self.scope.node(position)

    @property
    def origin(self) -> Value:
        """The value that this one is a copy of, through Identity nodes; itself where it is none."""
        value = self
        for _ in range(_MAX_COPIES):
            node = value.producer
            source = node.input(0) if node is not None and node.is_a("Identity") else None
            if source is None:
                break
            value = source
        return value

    @property
    def uses(self) -> list[Use]:
        """Every reading by a node, captures included; graph outputs are not among them."""
        return self.scope.uses.get(self.name, [])

    @property
    def is_output(self) -> bool:
        """Whether the value leaves its scope."""
        return self.name in self.scope.outputs


class Node(NamedTuple):
    """A node and its place."""

    scope: Scope
    position: int
    proto: onnx.NodeProto

    @property
    def op(self) -> tuple[str, str]:
        """Domain (canonical) and op type."""
        return self.scope.operator(self.proto)

    @property
    def label(self) -> str:
        """The node's name, or its first output where it has none: never empty for a valid node."""
        return str(self.proto.name) or next((name for name in self.proto.output if name), "")

    def is_a(self, *op_types: str) -> bool:
        """Whether it is one of these operators of the default domain.

        A node of a function that takes an attribute from the function's caller is none: it has as many meanings as
        callers.
        """
        domain, op_type = self.op
        return domain == "" and op_type in op_types and not any(stored.ref_attr_name for stored in self.proto.attribute)

    def input(self, position: int) -> Value | None:
        """The value at an input, or None where it is absent."""
        names = self.proto.input
        return self.scope.resolve(names[position]) if position < len(names) else None

    def output(self, position: int) -> Value | None:
        """The value at an output, or None where it is absent."""
        names = self.proto.output
        return Value(self.scope, names[position]) if position < len(names) and names[position] else None


class ModelIndex:
    """All scopes of a model. The model must not change while the index is in use."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.scopes: list[Scope] = []
        self._redefined = frozenset(
            function.name for function in model.functions if canonical_domain(function.domain) == ""
        )
        self._add_graph(model.graph, "main", None, _opsets(model.opset_import))
        for function in model.functions:
            self._add_function(function)
        for scope in self.scopes:
            self._record_uses(scope)
        for training in model.training_info:
            self._record_training(training)

    def calls(self, function: Scope) -> list[Node]:
        """Every node that calls a model function, wherever it is."""
        proto = function.proto
        if not isinstance(proto, onnx.FunctionProto):
            return []
        domain = canonical_domain(proto.domain)
        op = (domain or LOCAL, proto.name)
        nodes = (scope.node(position) for scope in self.scopes for position in scope.by_op.get(op, ()))
        return [node for node in nodes if node.proto.overload == proto.overload]

    @property
    def opset(self) -> int:
        """The model's version of the default domain; 0 where it is not imported."""
        return self.scopes[0].opset

    def _add_graph(self, graph: onnx.GraphProto, path: str, parent: Scope | None, opsets: dict[str, int]) -> None:
        scope = Scope(
            graph,
            path,
            parent,
            opsets,
            self._redefined,
            # A sparse initializer is no tensor that could be read, so it is a value that comes from outside.
            inputs=frozenset(
                [value.name for value in graph.input] + [sparse.values.name for sparse in graph.sparse_initializer]
            ),
            outputs=frozenset(value.name for value in graph.output),
            initializers={tensor.name: tensor for tensor in graph.initializer},
        )
        for values in (graph.value_info, graph.output, graph.input):
            scope.declared.update((value.name, value) for value in values)
        self._add_nodes(scope)

    def _add_function(self, function: onnx.FunctionProto) -> None:
        scope = Scope(
            function,
            f"function {function.domain}.{function.name}",
            None,
            _opsets(function.opset_import),
            self._redefined,
            inputs=frozenset(function.input),
            outputs=frozenset(function.output),
        )
        scope.declared.update((value.name, value) for value in function.value_info)
        self._add_nodes(scope)

    def _add_nodes(self, scope: Scope) -> None:
        self.scopes.append(scope)
        for position, node in enumerate(scope.proto.node):
            for name in node.output:
                if name:
                    scope.producers[name] = position
            scope.by_op.setdefault(scope.operator(node), []).append(position)
            for name, graph in _subgraphs(node):
                label = node.name or (node.output[0] if node.output else node.op_type)
                self._add_graph(graph, f"{scope.path}/{label}.{name}", scope, scope.opsets)

    def _record_uses(self, scope: Scope) -> None:
        for position, node in enumerate(scope.proto.node):
            for name in node.input:
                self._record(scope, name, Use(scope, position))
        for name in scope.outputs:
            value = scope.resolve(name)
            if value is not None and value.scope is not scope:
                value.scope.uses.setdefault(name, []).append(Use(scope, -1))

    def _record_training(self, training: onnx.TrainingInfoProto) -> None:
        """What a training step reads of the main graph lives on, and initializers that it sets are no constants."""
        main = self.scopes[0]
        bindings = (*training.initialization_binding, *training.update_binding)
        main.inputs |= {binding.key for binding in bindings if binding.key in main.initializers}
        for graph in (training.initialization, training.algorithm):
            for node in graph.node:
                for name in node.input:
                    self._record(main, name, Use(main, -1))

    @staticmethod
    def _record(scope: Scope, name: str, use: Use) -> None:
        value = scope.resolve(name)
        if value is not None:
            value.scope.uses.setdefault(name, []).append(use)


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in imports}


def _subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            for number, graph in enumerate(attribute.graphs):
                yield f"{attribute.name}[{number}]", graph
