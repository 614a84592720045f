# SPDX-License-Identifier: Apache-2.0

"""The graph index: every scope of a model with the producers and the uses of its values.

Built in one pass over the nodes, in time linear in the size of the model, without external data. The pass works on the
columns of the node list, not node by node: it takes a fraction of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, compress, repeat
from operator import ge, gt
from typing import TYPE_CHECKING, NamedTuple

import onnx
from onnx import AttributeProto, TensorProto

from poolgrad_lowering.model.ir.graphs import subgraphs
from poolgrad_lowering.model.ir.scopes import LOCAL, Node, Scope, Use, UseLists, canonical_domain

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_BLOCK = 500
"""The number of nodes that are read at a time: protobuf makes objects of what is read, and so they stay in caches."""


class NodeColumns(NamedTuple):
    """The fields of all nodes of a list.

    `names` has one entry per node, `operators` the positions of the nodes of each operator (domain, op type).
    `output_names[i]` is an output of the node at position `producers[i]`, `input_names[i]` an input of the node at
    `consumers[i]`, both ordered by node. `attributes` has the nodes with attributes: position and attributes.
    """

    names: list[str]
    operators: dict[tuple[str, str], list[int]]
    output_names: list[str]
    producers: list[int]
    input_names: list[str]
    consumers: list[int]
    attributes: list[tuple[int, list[onnx.AttributeProto]]]


def node_columns(nodes: Sequence[onnx.NodeProto]) -> NodeColumns:
    """The columns of a list of nodes."""
    columns = NodeColumns([], defaultdict(list), [], [], [], [], [])
    for first in range(0, len(nodes), _BLOCK):
        block = nodes[first : first + _BLOCK]
        columns.names.extend([node.name for node in block])
        for position, operator in enumerate([(node.domain, node.op_type) for node in block], first):
            columns.operators[operator].append(position)
        outputs, inputs = [node.output[:] for node in block], [node.input[:] for node in block]
        columns.output_names.extend(chain.from_iterable(outputs))
        columns.producers.extend([position for position, names in enumerate(outputs, first) for _ in names])
        columns.input_names.extend(chain.from_iterable(inputs))
        columns.consumers.extend([position for position, names in enumerate(inputs, first) for _ in names])
        attributes = enumerate([node.attribute for node in block], first)
        columns.attributes.extend([(position, held[:]) for position, held in attributes if held])
    return columns


class Visitor:
    """Callbacks made while a model is indexed. The default accepts everything."""

    def on_initializer(self, scope: Scope, tensor: TensorProto) -> None:
        """Called for each initializer. The index keeps no initializer: they may be large."""

    def on_scope_opened(self, scope: Scope) -> None:
        """Called for each scope after its inputs, outputs and initializers are indexed, before its nodes are."""

    def visit_attributes(
        self,
        scope: Scope,  # noqa: ARG002 - for messages of subclasses
        position: int,  # noqa: ARG002
        attributes: Collection[AttributeProto],
    ) -> Iterable[tuple[str, onnx.GraphProto]]:
        """The name and graph of each subgraph in the attributes of a node (position −1: of a function itself)."""
        held = (each for each in attributes if each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS))
        return subgraphs(held)

    def on_duplicate_definition(self, scope: Scope, position: int, name: str) -> None:
        """Called if the node at `position` defines a value that its scope already defines."""

    def on_scope_closed(self, scope: Scope, *, unsorted: bool) -> None:
        """Called after all nodes of a scope are indexed. `unsorted`: a value is used before it is defined."""

    def on_indexed(self, index: ModelIndex) -> None:
        """Called after all scopes are indexed."""


class ModelIndex:
    """All scopes of a model. The model must not change while the index is in use."""

    def __init__(self, model: onnx.ModelProto, visitor: Visitor | None = None) -> None:
        self.model = model
        self.scopes: list[Scope] = []
        self._visitor = visitor or Visitor()
        self._redefined = frozenset(
            function.name for function in model.functions if canonical_domain(function.domain) == ""
        )
        self._add_graph(model.graph, Scope(model.graph, "main", None, _opsets(model.opset_import), self._redefined))
        for function in model.functions:
            self._add_function(function)
        for number, training in enumerate(model.training_info):
            self._add_training(training, f"training[{number}]")
        self._visitor.on_indexed(self)

    def calls(self, function: Scope) -> Iterator[tuple[Scope, int]]:
        """The scope and the position of every node that calls a model function."""
        proto = function.proto
        if isinstance(proto, onnx.FunctionProto):
            op = (canonical_domain(proto.domain) or LOCAL, proto.name)
            for scope in self._scopes_with[op]:
                nodes = ((position, scope.proto.node[position]) for position in scope.by_op[op])
                yield from ((scope, position) for position, node in nodes if node.overload == proto.overload)

    def names(self) -> set[str]:
        """Every value and node name of the model."""
        names: set[str] = set()
        for scope in self.scopes:
            names.update(scope.producers, scope.initializers, scope.inputs, scope.interface, scope.value_infos)
            names.update(scope.node_names)
        return names

    def subgraphs_of(self, node: Node) -> list[Scope]:
        """The scopes of the subgraphs that a node holds."""
        return self._held.get((node.scope, node.position), [])

    def release(self) -> None:
        """Clear the index: this breaks its reference cycles, so that its memory is freed without Python's collector."""
        for scope in self.scopes:
            scope.release()

    @cached_property
    def _scopes_with(self) -> defaultdict[tuple[str, str], list[Scope]]:
        """For each operator, the scopes that contain it."""
        found = defaultdict[tuple[str, str], list[Scope]](list)
        for scope in self.scopes:
            for op in scope.by_op:
                found[op].append(scope)
        return found

    @cached_property
    def _held(self) -> defaultdict[tuple[Scope, int], list[Scope]]:
        """The scopes of subgraphs, by the scope and the position of the node that holds them."""
        found = defaultdict[tuple[Scope, int], list[Scope]](list)
        for scope in self.scopes:
            if scope.parent is not None:
                found[scope.parent, scope.holder].append(scope)
        return found

    @property
    def opset(self) -> int:
        """The model's opset version of the default domain; 0 if it is not imported."""
        return self.scopes[0].opset

    def _add_graph(self, graph: onnx.GraphProto, scope: Scope) -> Scope:
        # The contents of a sparse initializer are not evaluated, so it counts as an input.
        scope.inputs = frozenset(
            [value.name for value in graph.input] + [sparse.values.name for sparse in graph.sparse_initializer]
        )
        scope.outputs = frozenset(value.name for value in graph.output)
        for number, tensor in enumerate(graph.initializer):
            self._visitor.on_initializer(scope, tensor)
            scope.initializers[tensor.name] = number
        scope.interface = {value.name: value for value in (*graph.output, *graph.input)}
        scope.value_infos = _declarations(graph.value_info)
        self._add_nodes(scope)
        return scope

    def _add_function(self, function: onnx.FunctionProto) -> None:
        path = f"function {function.domain}.{function.name}"
        scope = Scope(function, path, None, _opsets(function.opset_import), self._redefined)
        scope.inputs, scope.outputs = frozenset(function.input), frozenset(function.output)
        scope.value_infos = _declarations(function.value_info)
        self._add_nodes(scope)

    def _add_nodes(self, scope: Scope) -> None:
        self.scopes.append(scope)
        self._visitor.on_scope_opened(scope)
        columns = node_columns(scope.proto.node)
        scope.node_names = columns.names
        for spelling, positions in columns.operators.items():  # two of an operator if a domain has two spellings
            op = scope.operator(*spelling)
            scope.by_op[op] = sorted([*scope.by_op.get(op, ()), *positions])
        unsorted = self._enter_values(scope, columns)
        for position, attributes in columns.attributes:
            for name, graph in self._visitor.visit_attributes(scope, position, attributes):
                unsorted |= self._add_subgraph(scope, position, name, graph)
        self._visitor.on_scope_closed(scope, unsorted=unsorted)

    def _enter_values(self, scope: Scope, columns: NodeColumns) -> bool:
        """Enter the producers and uses of values; returns whether a node uses a value of itself or of a later node."""
        outputs = columns.output_names
        scope.producers = producers = dict(zip(outputs, columns.producers, strict=True))
        producers.pop("", None)
        outside = (scope.inputs, scope.initializers.keys())
        if len(producers) + outputs.count("") < len(outputs) or not all(map(producers.keys().isdisjoint, outside)):
            position, name = _first_duplicate(scope, columns)
            self._visitor.on_duplicate_definition(scope, position, name)
        producers_of_inputs = list(map(producers.get, columns.input_names, repeat(-1)))
        unsorted = any(map(ge, producers_of_inputs, columns.consumers))
        scope.free_names = dict.fromkeys(compress(columns.input_names, map(gt, repeat(0), producers_of_inputs)))
        scope.free_names.pop("", None)
        captured = [name for name in sorted(scope.outputs, key=str) if not scope.defines(name)]
        scope.free_names.update(dict.fromkeys(captured))
        scope.use_lists = UseLists(columns.input_names, columns.consumers, producers_of_inputs, captured)
        return unsorted

    def _add_subgraph(self, scope: Scope, position: int, name: str, graph: onnx.GraphProto) -> bool:
        """Add a subgraph of a node; returns whether it uses a value of that node or of a later one."""
        node = scope.proto.node[position]
        label = node.name or (node.output[0] if node.output else node.op_type)
        path = f"{scope.path}/{label}.{name}"
        inner = self._add_graph(graph, Scope(graph, path, scope, scope.opsets, self._redefined, holder=position))
        captures = inner.captures()
        for captured in captures:
            scope.captured.setdefault(captured, []).extend(inner.uses(captured))
        return any(scope.producers.get(captured, -1) >= position for captured in captures)

    def _add_training(self, training: onnx.TrainingInfoProto, path: str) -> None:
        """Enter what a training step uses of the main graph as uses; initializers that it updates become inputs.

        Its graphs are validated by the visitor and then dropped from the index: nothing in them is lowered.
        """
        main, count = self.scopes[0], len(self.scopes)
        bindings = (*training.initialization_binding, *training.update_binding)
        main.inputs |= {binding.key for binding in bindings if binding.key in main.initializers}
        for name, graph in (("initialization", training.initialization), ("algorithm", training.algorithm)):
            scope = self._add_graph(graph, Scope(graph, f"{path}.{name}", main, main.opsets, self._redefined))
            for captured in scope.captures():
                main.captured.setdefault(captured, []).extend(Use(main, -1) for _ in scope.uses(captured))
        del self.scopes[count:]


def value_infos_of(scope: Scope, names: Collection[str]) -> list[int]:
    """The positions of a scope's value_infos with these names; a model may have several for one value."""
    entries = scope.proto.value_info
    if len(entries) == len(scope.value_infos):
        return [scope.value_infos[name] for name in names if name in scope.value_infos]
    return [position for position, entry in enumerate(entries) if entry.name in names]


def _declarations(entries: RepeatedCompositeFieldContainer[onnx.ValueInfoProto]) -> dict[str, int]:
    """The positions of value_infos by name; where one is there twice, the last of those that say most."""
    names = [entry.name for entry in entries]
    found = dict(zip(names, range(len(names)), strict=True))
    if len(found) < len(names):
        by_content = sorted(range(len(names)), key=lambda position: _content(entries[position].type))
        found = {names[position]: position for position in by_content}
    return found


def _content(declared: onnx.TypeProto) -> int:
    """How much is declared: nothing, a type, or a tensor's shape too."""
    return declared.HasField("value") + declared.tensor_type.HasField("shape")


def _first_duplicate(scope: Scope, columns: NodeColumns) -> tuple[int, str]:
    """The position and name of the first definition of a name that is already defined. Requires that there is one."""
    known = {*scope.inputs, *scope.initializers}
    for name, position in zip(columns.output_names, columns.producers, strict=True):
        if name in known:
            return position, name
        known.update((name,) if name else ())
    raise AssertionError("every value is defined once")


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in imports}
