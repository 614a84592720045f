"""Scopes and what is in them: nodes, values and their uses, over the live protobuf.

A scope is the main graph, a subgraph held by a node's attribute (If, Loop, Scan and any other), or a model
function. Subgraphs see the values of the scopes around them. `index` fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import onnx

from poolgrad_lowering.ir.model import Graph
from poolgrad_lowering.ir.packed_model import Packed
from poolgrad_lowering.ir.use_lists import UseLists

GraphLike = Graph | onnx.FunctionProto

MAX_CHAIN = 64
"""The number of nodes that one search of the graph visits at most; producers write fewer in a row."""

LOCAL = "local function"
"""In place of the default domain: the node calls a function with which the model redefines a standard operator."""


def canonical_domain(domain: str) -> str:
    """The ONNX domain with its two spellings of the default one made equal."""
    return "" if domain == "ai.onnx" else domain


@dataclass(eq=False)
class Scope:
    """One name space of values: a graph or a function, with its place in the model.

    `path` is for people: `main`, `main/if_3.then_branch`, `function npu.Foo`. `holder` is the position in the parent of
    the node that holds a subgraph, else -1. Numbers are positions in the lists of `proto`: what is not asked about
    stays there. `foreign` are the names that nodes or outputs of the scope read and none of its nodes makes.
    """

    proto: GraphLike
    path: str
    parent: Scope | None
    opsets: dict[str, int]
    redefined: frozenset[str]
    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    initializers: dict[str, int] = field(default_factory=dict)
    interface: dict[str, onnx.ValueInfoProto] = field(default_factory=dict)
    value_infos: dict[str, int] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, None] = field(default_factory=dict)
    use_lists: UseLists = field(default_factory=UseLists)
    captured: dict[str, list[Use]] = field(default_factory=dict)
    by_op: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    node_names: list[str] = field(default_factory=list)
    holder: int = -1
    values: dict[str, Value] = field(default_factory=dict)
    _meant: dict[str, Value] = field(default_factory=dict)
    _nodes: dict[int, Node] = field(default_factory=dict)

    def defines(self, name: str) -> bool:
        """Whether the value is made in this scope, not captured from around it."""
        return name in self.producers or name in self.initializers or name in self.inputs

    def captures(self) -> list[str]:
        """The names that are read in this scope and not made in it: those of values around it, or of none."""
        made, stored, given = self.producers, self.initializers, self.inputs
        read = self.foreign | dict.fromkeys(self.captured)
        return [name for name in read if name not in made and name not in stored and name not in given]

    def resolve(self, name: str) -> Value | None:
        """The value that `name` means here, or None for the empty name and for names that nobody makes."""
        known = self._meant.get(name)
        if known is not None:
            return known
        scope: Scope | None = self
        while name and scope is not None:
            if scope.defines(name):
                value = self._meant[name] = Value(scope, name)
                return value
            scope = scope.parent
        return None

    def uses(self, name: str) -> list[Use]:
        """Every reading of one of the scope's names by a node, captures included; outputs are not among them."""
        return [Use(self, position) for position in self.use_lists.of(name)] + self.captured.get(name, [])

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """The initializer of this name."""
        position = self.initializers.get(name)
        if position is None or isinstance(self.proto, onnx.FunctionProto):
            return None
        return self.proto.initializer[position]

    def declared(self, name: str) -> onnx.ValueInfoProto | None:
        """What the scope declares of one of its values: as input, as output, or in between."""
        if name in self.interface:
            return self.interface[name]
        position = self.value_infos.get(name)
        return None if position is None else self.proto.value_info[position]

    def operator(self, domain: str, op_type: str) -> tuple[str, str]:
        """Domain (canonical) and op type of a node of the scope that gives these two."""
        domain = canonical_domain(domain)
        local = domain == "" and op_type in self.redefined
        return LOCAL if local else domain, op_type

    def node(self, position: int) -> Node:
        """The node at a position of the scope's node list: the same object whenever it is asked for."""
        node = self._nodes.get(position)
        if node is None:
            node = self._nodes[position] = Node(self, position, self.proto.node[position])
        return node

    def write_back(self, position: int) -> None:
        """Have the model take over what was changed in one of the scope's nodes, or in a graph that it holds."""
        nodes = self.proto.node
        if isinstance(nodes, Packed):
            nodes.write_back(position)
        elif self.parent is not None:
            self.parent.write_back(self.holder)

    def release(self) -> None:
        """Let go of what was asked for and of readers in subgraphs: nodes, values and scopes hold each other."""
        for value in self.values.values():
            value.forget()
        for held in (self.values, self._meant, self._nodes, self.captured):
            held.clear()

    @property
    def root(self) -> Scope:
        """The outermost scope around this one: the main graph or a function."""
        return self if self.parent is None else self.parent.root

    @property
    def depth(self) -> int:
        """How many scopes are around this one."""
        return 0 if self.parent is None else self.parent.depth + 1

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


class Value:
    """A value, by the scope that defines it and its name there: the same object for the same two."""

    __slots__ = ("_producer", "_reader_count", "name", "scope")

    scope: Scope
    name: str
    _producer: Node | Literal[False] | None
    _reader_count: int

    def __new__(cls, scope: Scope, name: str) -> Value:
        """The value of that name, made when it is first asked for."""
        value = scope.values.get(name)
        if value is None:
            value = scope.values[name] = super().__new__(cls)
            value.scope, value.name, value._producer, value._reader_count = scope, name, False, -1
        return value

    def __repr__(self) -> str:
        return f"Value({self.scope.path!r}, {self.name!r})"

    @property
    def producer(self) -> Node | None:
        """The node that makes it; None for inputs and initializers."""
        if self._producer is False:
            position = self.scope.producers.get(self.name)
            self._producer = None if position is None else self.scope.node(position)
        return self._producer

    def forget(self) -> None:
        """Let go of the node that makes it."""
        self._producer = None

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
        *_, source = self.sources(lambda node: node.is_a("Identity"))
        return source

    @property
    def uses(self) -> list[Use]:
        """Every reading by a node, captures included; graph outputs are not among them."""
        return self.scope.uses(self.name)

    @property
    def reader_count(self) -> int:
        """How many uses there are, and whether it is an output."""
        if self._reader_count < 0:
            scope, name = self.scope, self.name
            captures = len(scope.captured.get(name, ()))
            self._reader_count = len(scope.use_lists.of(name)) + captures + (name in scope.outputs)
        return self._reader_count

    @property
    def is_output(self) -> bool:
        """Whether the value leaves its scope."""
        return self.name in self.scope.outputs


class Node:
    """A node and its place, read once: `Scope.node` gives the same object whenever it is asked for.

    `op` is domain (canonical) and op type, `attributes` those that the node itself carries; of `inputs` and `outputs`
    the absent ones are None.
    """

    __slots__ = ("_standard", "attributes", "inputs", "op", "outputs", "position", "proto", "scope")

    def __init__(self, scope: Scope, position: int, proto: onnx.NodeProto) -> None:
        self.scope = scope
        self.position = position
        self.proto = proto
        self.op = scope.operator(proto.domain, proto.op_type)
        attributes = proto.attribute[:]  # of protobuf's repeated fields, slices are quicker than iterators
        self.attributes = {stored.name: stored for stored in reversed(attributes)}
        self.inputs = tuple([scope.resolve(name) for name in proto.input[:]])
        self.outputs = tuple([Value(scope, name) if name else None for name in proto.output[:]])
        depends_on_caller = any(stored.ref_attr_name for stored in attributes)
        self._standard = None if self.op[0] or depends_on_caller else self.op[1]

    @property
    def label(self) -> str:
        """The node's name, or its first output where it has none: never empty for a valid node."""
        return str(self.proto.name) or next((value.name for value in self.outputs if value is not None), "")

    def is_a(self, *op_types: str) -> bool:
        """Whether it is one of these operators of the default domain.

        A node of a function that takes an attribute from the function's caller is none: it has as many meanings as
        callers.
        """
        return self._standard in op_types

    def input(self, position: int) -> Value | None:
        """The value at an input, or None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self, position: int) -> Value | None:
        """The value at an output, or None where it is absent."""
        return self.outputs[position] if position < len(self.outputs) else None
