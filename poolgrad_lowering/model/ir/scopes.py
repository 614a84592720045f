# SPDX-License-Identifier: Apache-2.0

"""Scopes with their nodes, values and uses, as views of the protobuf model.

A scope is the main graph, a subgraph in a node's attribute (of If, Loop, Scan or any other operator), or a model
function. A subgraph can use the values of the scopes that enclose it. `index` builds scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import onnx


class UseLists:
    """For each name, the positions of the nodes that consume it. Empty names are absent inputs.

    Stored as two flat lists, `names` and `positions`: one list per name would be most of what the index allocates. The
    first `by_nodes` entries are the inputs of nodes, ordered by node, with `producers`: the position of the node that
    produces it, -1 if none of the scope does.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        positions: Sequence[int] = (),
        producers: Sequence[int] = (),
        captured: Sequence[str] = (),
    ) -> None:
        self.by_nodes = len(names)
        self.producers = producers
        self.names = [*names, *captured] if captured else names
        self.positions = [*positions, *[-1] * len(captured)] if captured else positions

    def of(self, name: str) -> list[int]:
        """The positions of the nodes that consume the name, in order, one entry per input."""
        last, before = self._links
        found, use = [], last.get(name, -1)
        while use >= 0:
            found.append(self.positions[use])
            use = before[use]
        return found[::-1]

    @cached_property
    def _links(self) -> tuple[dict[str, int], list[int]]:
        """Linked lists of uses: the last use of each name, and the use before each use; −1 ends a list.

        Computed at the first query: a model without anchors never needs it.
        """
        last: dict[str, int] = {}
        before: list[int] = []
        for use, name in enumerate(self.names):
            before.append(last.get(name, -1))
            last[name] = use
        return last, before


GraphLike = onnx.GraphProto | onnx.FunctionProto

MAX_CHAIN = 64
"""The number of nodes that one search of the graph visits at most; producers write fewer in a row."""

LOCAL = "local function"
"""Replaces the default domain of a node that calls a function by which the model redefines a standard operator."""


def canonical_domain(domain: str) -> str:
    """The domain, with the default domain always as the empty string."""
    return "" if domain == "ai.onnx" else domain


class Scope:
    """A name space of values: a graph or a function, and its place in the model.

    `path` is for messages: `main`, `main/if_3.then_branch`, `function npu.Foo`. `holder` is the position in the parent
    of the node that holds a subgraph, else -1. Integers are positions in the lists of `proto`. `free_names` are the
    names that nodes or outputs of the scope use and that none of its nodes defines.
    """

    def __init__(
        self,
        proto: GraphLike,
        path: str,
        parent: Scope | None,
        opsets: dict[str, int],
        redefined: frozenset[str],
        *,
        holder: int = -1,
    ) -> None:
        self.proto, self.path, self.parent, self.holder = proto, path, parent, holder
        self.opsets, self.redefined = opsets, redefined
        self.inputs = self.outputs = frozenset[str]()
        self.initializers: dict[str, int] = {}
        self.interface: dict[str, onnx.ValueInfoProto] = {}
        self.value_infos: dict[str, int] = {}
        self.producers: dict[str, int] = {}
        self.free_names: dict[str, None] = {}
        self.use_lists = UseLists()
        self.captured: dict[str, list[Use]] = {}
        self.by_op: dict[tuple[str, str], list[int]] = {}
        self.node_names: list[str] = []
        self.values: dict[str, Value] = {}
        self.resolved: dict[str, Value] = {}
        self._nodes: dict[int, Node] = {}

    def defines(self, name: str) -> bool:
        """Whether the name is defined in this scope, not captured from an enclosing one."""
        return name in self.producers or name in self.initializers or name in self.inputs

    def captures(self) -> list[str]:
        """The names that this scope uses and does not define; an enclosing scope may define them."""
        produced, stored, inputs = self.producers, self.initializers, self.inputs
        used = self.free_names | dict.fromkeys(self.captured)
        return [name for name in used if name not in produced and name not in stored and name not in inputs]

    def resolve(self, name: str) -> Value | None:
        """The value that `name` refers to in this scope; None for the empty name and for undefined names."""
        known = self.resolved.get(name)
        if known is not None:
            return known
        scope: Scope | None = self
        while name and scope is not None:
            if scope.defines(name):
                value = self.resolved[name] = Value(scope, name)
                return value
            scope = scope.parent
        return None

    def uses(self, name: str) -> list[Use]:
        """Every use of a name of this scope by a node, also in subgraphs; outputs of this scope are not included."""
        return [Use(self, position) for position in self.use_lists.of(name)] + self.captured.get(name, [])

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """The initializer of this name, or None."""
        position = self.initializers.get(name)
        if position is None or isinstance(self.proto, onnx.FunctionProto):
            return None
        return self.proto.initializer[position]

    def declared(self, name: str) -> onnx.ValueInfoProto | None:
        """The declaration of a value of this scope as input, output or value_info, or None."""
        if name in self.interface:
            return self.interface[name]
        position = self.value_infos.get(name)
        return None if position is None else self.proto.value_info[position]

    def operator(self, domain: str, op_type: str) -> tuple[str, str]:
        """The operator, canonical domain and op type, of a node of this scope with this domain and op type."""
        domain = canonical_domain(domain)
        return LOCAL if domain == "" and op_type in self.redefined else domain, op_type

    def node(self, position: int) -> Node:
        """The node at a position of the scope's node list, always as the same object."""
        node = self._nodes.get(position)
        if node is None:
            node = self._nodes[position] = Node(self, position, self.proto.node[position])
        return node

    def release(self) -> None:
        """Clear the caches and captures: nodes, values and scopes refer to each other in cycles."""
        for held in (self.values, self.resolved, self._nodes, self.captured):
            held.clear()

    @property
    def root(self) -> Scope:
        """The outermost scope around this one: the main graph or a function."""
        return self if self.parent is None else self.parent.root

    @property
    def depth(self) -> int:
        """The number of enclosing scopes."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def opset(self) -> int:
        """The opset version of the default domain in this scope; 0 if it is not imported."""
        return self.opsets.get("", 0)


class Use(NamedTuple):
    """A use of a value by the node at a position of `scope`, which is the value's own scope or a nested one.

    The position is -1 for a use as an output of a subgraph or by the model's training step.
    """

    scope: Scope
    position: int


class Value:
    """A value, identified by its scope and its name there. Equal scope and name give the same object."""

    __slots__ = ("name", "scope")

    scope: Scope
    name: str

    def __new__(cls, scope: Scope, name: str) -> Value:
        """The value of that name, created at the first call."""
        value = scope.values.get(name)
        if value is None:
            value = scope.values[name] = object.__new__(cls)
            value.scope, value.name = scope, name
        return value

    def __repr__(self) -> str:
        return f"Value({self.scope.path!r}, {self.name!r})"

    @property
    def producer(self) -> Node | None:
        """The node that produces it; None for inputs and initializers."""
        position = self.scope.producers.get(self.name)
        return None if position is None else self.scope.node(position)

    def upstream(self) -> Iterator[tuple[Value, Node | None]]:
        """The value with its producer, then the first input of each producer with its own producer.

        In the last pair the node is None. Ends after `MAX_CHAIN` nodes.
        """
        value = self
        for _ in range(MAX_CHAIN):
            node = value.producer
            source = node.input(0) if node is not None else None
            if source is None:
                break
            yield value, node
            value = source
        yield value, None

    def sources(self, passes: Callable[[Node], bool]) -> Iterator[Value]:
        """The value itself, and those that it comes from through nodes that `passes` accepts, nearest first."""
        for value, node in self.upstream():
            yield value
            if node is None or not passes(node):
                return

    def behind(self, passes: Callable[[Node], bool]) -> Value:
        """The last one of `sources`."""
        *_, source = self.sources(passes)
        return source

    def ancestors(self, inputs: Callable[[Node], Sequence[Value | None]]) -> Iterator[Value]:
        """The value itself, and those that it is computed from, nearest first: of each node the ones in `inputs`."""
        pending, seen = [self], {self}
        for reached in pending:
            yield reached
            node = reached.producer
            found = inputs(node) if node is not None else ()
            new = [value for value in found if value is not None and value not in seen]
            seen.update(new)
            pending += new

    @property
    def origin(self) -> Value:
        """The value that this one is a copy of, through Identity nodes; itself where it is none."""
        return self.behind(lambda node: node.is_a("Identity"))

    @property
    def uses(self) -> list[Use]:
        """Every use by a node, also in subgraphs; outputs of the scope are not included."""
        return self.scope.uses(self.name)

    @property
    def only_reader(self) -> Node | None:
        """The node of its scope that alone uses it; None if there are others, or it is an output."""
        uses = self.uses
        if self.is_output or len(uses) != 1 or uses[0].scope is not self.scope or uses[0].position < 0:
            return None
        return self.scope.node(uses[0].position)

    @property
    def is_output(self) -> bool:
        """Whether the value is an output of its scope."""
        return self.name in self.scope.outputs

    @property
    def is_main_input(self) -> bool:
        """Whether the value is an input of the main graph."""
        return self.scope.path == "main" and self.name in self.scope.inputs


class Node:
    """A node and its position in a scope. `Scope.node` always returns the same object for a position.

    `op` is the canonical domain and the op type. `attributes` are those of the node itself, without defaults. An absent
    input or output is None in `inputs` or `outputs`.
    """

    __slots__ = ("_standard", "attributes", "inputs", "op", "outputs", "position", "proto", "scope")

    def __init__(self, scope: Scope, position: int, proto: onnx.NodeProto) -> None:
        self.scope = scope
        self.position = position
        self.proto = proto
        self.op = scope.operator(proto.domain, proto.op_type)
        resolved = scope.resolved
        self.inputs = tuple([resolved.get(name) or scope.resolve(name) for name in proto.input[:]])
        self.outputs = tuple([Value(scope, name) if name else None for name in proto.output[:]])
        self._standard = None if self.op[0] else self.op[1]
        self.attributes: dict[str, onnx.AttributeProto] = {}
        for stored in proto.attribute[::-1]:  # of two with one name the first one counts
            self.attributes[stored.name] = stored
            if stored.ref_attr_name:
                self._standard = None

    @property
    def label(self) -> str:
        """The node's name, or its first output if it has no name; never empty for a valid node."""
        return str(self.proto.name) or next((value.name for value in self.outputs if value is not None), "")

    def is_a(self, *op_types: str) -> bool:
        """Whether the node is one of these operators of the default domain.

        False for a node that takes an attribute from the caller of its function: its meaning depends on the caller.
        """
        return self._standard in op_types

    def input(self, position: int) -> Value | None:
        """The value of an input, or None if it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self, position: int) -> Value | None:
        """The value of an output, or None if it is absent."""
        return self.outputs[position] if position < len(self.outputs) else None
