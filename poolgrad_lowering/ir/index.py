"""The graph index: every scope of a model with its makers and readers of values.

Built in one pass over the nodes, linear in the size of the model, without external data. The pass takes the
nodes field by field, each as one list (`node_columns`), and does with lists what else would be done by node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress, repeat
from operator import ge, gt

import onnx
from onnx import AttributeProto, TensorProto

from poolgrad_lowering.ir.attributes import Form
from poolgrad_lowering.ir.model import Graph, Model
from poolgrad_lowering.ir.node_columns import NodeColumns, declared_names, node_columns
from poolgrad_lowering.ir.scopes import LOCAL, Node, Scope, Use, canonical_domain
from poolgrad_lowering.ir.use_lists import UseLists


class Visitor:
    """Who goes along with the pass. This one lets everything pass; the gate does not."""

    def stored(self, scope: Scope, tensor: TensorProto) -> None:
        """A graph stores a tensor. None of them is kept by the pass: they may be large."""

    def opened(self, scope: Scope) -> None:
        """A scope begins: its inputs, outputs and initializers are entered, its nodes are not."""

    def knows(self, form: Form) -> bool:  # noqa: ARG002
        """Whether a node's attributes need no look: all of this form are in order and hold no graphs."""
        return False

    def graphs_of(
        self,
        scope: Scope,  # noqa: ARG002 - for those who say where they are
        position: int,  # noqa: ARG002
        form: Form,  # noqa: ARG002
        attributes: Collection[AttributeProto],
    ) -> Iterable[tuple[str, onnx.GraphProto]]:
        """The subgraphs in the attributes of a node (position −1: of a function itself), each with its name."""
        for attribute in attributes:
            if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                yield from held_graphs(attribute)

    def on_duplicate_definition(self, scope: Scope, position: int, name: str) -> None:
        """A node makes a value that its scope has already."""

    def closed(self, scope: Scope, *, backward: bool) -> None:
        """All nodes of a scope are entered. `backward`: one of them is read before it is made."""

    def finished(self, index: ModelIndex) -> None:
        """All scopes are entered."""


class ModelIndex:
    """All scopes of a model. The model must not change while the index is in use.

    Raises `DecodeError` where something that a model has packed is not what it should be.
    """

    def __init__(self, model: Model, visitor: Visitor | None = None) -> None:
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
        self._visitor.finished(self)

    def calls(self, function: Scope) -> list[Node]:
        """Every node that calls a model function, wherever it is."""
        proto = function.proto
        if not isinstance(proto, onnx.FunctionProto):
            return []
        domain = canonical_domain(proto.domain)
        op = (domain or LOCAL, proto.name)
        nodes = (scope.node(position) for scope in self._scopes_with[op] for position in scope.by_op[op])
        return [node for node in nodes if node.proto.overload == proto.overload]

    def release(self) -> None:
        """Give the index up, so that its memory is free at once and no work for Python's collector."""
        for scope in self.scopes:
            scope.release()

    @cached_property
    def _scopes_with(self) -> defaultdict[tuple[str, str], list[Scope]]:
        """The scopes that have nodes of an operator."""
        found = defaultdict[tuple[str, str], list[Scope]](list)
        for scope in self.scopes:
            for op in scope.by_op:
                found[op].append(scope)
        return found

    @property
    def opset(self) -> int:
        """The model's version of the default domain; 0 where it is not imported."""
        return self.scopes[0].opset

    def _add_graph(self, graph: Graph, scope: Scope) -> Scope:
        # A sparse initializer is no tensor that could be read, so it is a value that comes from outside.
        scope.inputs = frozenset(
            [value.name for value in graph.input] + [sparse.values.name for sparse in graph.sparse_initializer]
        )
        scope.outputs = frozenset(value.name for value in graph.output)
        for number, tensor in enumerate(graph.initializer):
            self._visitor.stored(scope, tensor)
            scope.initializers[tensor.name] = number
        scope.interface = {value.name: value for value in (*graph.output, *graph.input)}
        scope.value_infos = _numbered(declared_names(graph.value_info))
        self._add_nodes(scope)
        return scope

    def _add_function(self, function: onnx.FunctionProto) -> None:
        path = f"function {function.domain}.{function.name}"
        scope = Scope(function, path, None, _opsets(function.opset_import), self._redefined)
        scope.inputs, scope.outputs = frozenset(function.input), frozenset(function.output)
        scope.value_infos = _numbered(declared_names(function.value_info))
        self._add_nodes(scope)

    def _add_nodes(self, scope: Scope) -> None:
        self.scopes.append(scope)
        self._visitor.opened(scope)
        columns = node_columns(scope.proto.node)
        _enter_operators(scope, columns)
        backward = self._enter_values(scope, columns)
        for position, form in columns.attributed:
            if self._visitor.knows(form):
                continue
            attributes = scope.proto.node[position].attribute[:]
            for name, graph in self._visitor.graphs_of(scope, position, form, attributes):
                backward |= self._add_subgraph(scope, position, name, graph)
        self._visitor.closed(scope, backward=backward)

    def _enter_values(self, scope: Scope, columns: NodeColumns) -> bool:
        """Enter what the nodes make and read; whether one reads what is made later, or by itself."""
        made, makers = columns.made, columns.makers
        scope.producers = producers = dict(zip(made, makers, strict=True))
        producers.pop("", None)
        outside = (scope.inputs, scope.initializers.keys())
        if len(producers) + made.count("") < len(made) or not all(map(producers.keys().isdisjoint, outside)):
            self._visitor.on_duplicate_definition(scope, *_on_duplicate_definition(scope, made, makers))
        makers_of_read = list(map(producers.get, columns.read, repeat(-1)))
        backward = any(map(ge, makers_of_read, columns.readers))
        scope.foreign = dict.fromkeys(compress(columns.read, map(gt, repeat(0), makers_of_read)))
        scope.foreign.pop("", None)
        captured = [name for name in sorted(scope.outputs, key=str) if not scope.defines(name)]
        scope.foreign.update(dict.fromkeys(captured))
        scope.use_lists = UseLists([*columns.read, *captured], [*columns.readers, *[-1] * len(captured)])
        return backward

    def _add_subgraph(self, scope: Scope, position: int, name: str, graph: onnx.GraphProto) -> bool:
        """Add a subgraph of a node; whether it reads what is made by that node, or later."""
        node = scope.proto.node[position]
        label = node.name or (node.output[0] if node.output else node.op_type)
        path = f"{scope.path}/{label}.{name}"
        inner = self._add_graph(graph, Scope(graph, path, scope, scope.opsets, self._redefined, holder=position))
        captures = inner.captures()
        for captured in captures:
            scope.captured.setdefault(captured, []).extend(inner.uses(captured))
        return any(scope.producers.get(captured, -1) >= position for captured in captures)

    def _add_training(self, training: onnx.TrainingInfoProto, path: str) -> None:
        """What a training step reads of the main graph lives on, and initializers that it sets are no constants.

        Its graphs are visited and are no scopes of the index: nothing in them is lowered.
        """
        main, count = self.scopes[0], len(self.scopes)
        bindings = (*training.initialization_binding, *training.update_binding)
        main.inputs |= {binding.key for binding in bindings if binding.key in main.initializers}
        for name, graph in (("initialization", training.initialization), ("algorithm", training.algorithm)):
            scope = self._add_graph(graph, Scope(graph, f"{path}.{name}", main, main.opsets, self._redefined))
            for captured in scope.captures():
                main.captured.setdefault(captured, []).extend(Use(main, -1) for _ in scope.uses(captured))
        del self.scopes[count:]


def held_graphs(attribute: AttributeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The graphs that an attribute of one of the two graph types holds, each with its name."""
    if attribute.type == AttributeProto.GRAPH:
        yield attribute.name, attribute.g
    for number, graph in enumerate(attribute.graphs):
        yield f"{attribute.name}[{number}]", graph


def _enter_operators(scope: Scope, columns: NodeColumns) -> None:
    """Enter the names of nodes and, by operator, their positions: ascending, however domains are spelled."""
    spelled = defaultdict[tuple[str, str], list[int]](list)
    for position, spelling in enumerate(columns.operators):
        spelled[spelling].append(position)
    for spelling, positions in spelled.items():
        op = scope.operator(*spelling)
        scope.by_op[op] = sorted([*scope.by_op.get(op, ()), *positions])
    scope.node_names = columns.names


def _numbered(names: Sequence[str]) -> dict[str, int]:
    """Names with their positions, the last where one is there twice."""
    return dict(zip(names, range(len(names)), strict=True))


def _on_duplicate_definition(scope: Scope, made: Iterable[str], makers: Iterable[int]) -> tuple[int, str]:
    """Of values of which one is there already: where and which the first such is."""
    known = {*scope.inputs, *scope.initializers}
    for name, position in zip(made, makers, strict=True):
        if name in known:
            return position, name
        known.update((name,) if name else ())
    raise AssertionError("every value is made once")


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in imports}
