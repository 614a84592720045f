# SPDX-License-Identifier: Apache-2.0

"""The pass: replaces each node of an operator of a training runtime by its definition."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.diagnostics.text import counted, operator_text
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.training_operators import MICROSOFT
from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.ir.graphs import domains_used, names_read, remove_entries
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Scope, Value
from poolgrad_lowering.standard.definition import Call
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.result import NodeLeft, Standardised
from poolgrad_lowering.standard.table import DEFINITIONS, UNDEFINED

logger = logging.getLogger(__name__)

ACCUMULATOR = (MICROSOFT, "InPlaceAccumulatorV2")


def standardise(model: ModelProto, index: ModelIndex, facts: Facts) -> Standardised:
    """Replace the operators of training runtimes in the model's graphs by their definitions, in place.

    `index` and `facts` are the model's, and invalid afterwards. A node without a definition stays as it is. Names of
    inputs and of values stay; the output of an InPlaceAccumulatorV2 is the new buffer, in place of a flag.
    """
    taken = index.names()
    before = sum(len(scope.proto.node) for scope in index.scopes)
    passes = [
        _GraphPass(scope, scope.proto, facts, taken) for scope in index.scopes if isinstance(scope.proto, GraphProto)
    ]
    replaced = sum((each.write() for each in passes), Counter[str]())
    read = [each.read() if replaced else set[str]() for each in passes]
    for each, once in reversed([*zip(passes, read, strict=True)]):  # a graph copies its nodes with their subgraphs
        each.replace(once)
    functions = [scope for scope in index.scopes if not isinstance(scope.proto, GraphProto)]
    left = (
        *(node for each in passes for node in each.left),
        *(node for scope in functions for node in _left_in_function(scope, facts)),
    )
    if replaced:
        used = domains_used(model) | {"", "ai.onnx"}
        remove_entries(model.opset_import, lambda entry: entry.domain not in used)
    logger.info("%s replaced by definitions, %d left", counted(replaced.total(), "node"), len(left))
    return Standardised(dict(replaced), left, sum(len(scope.proto.node) for scope in index.scopes) - before)


class _GraphPass:
    """The pass over one graph. `left` are the nodes without a definition."""

    def __init__(self, scope: Scope, graph: GraphProto, facts: Facts, taken: set[str]) -> None:
        self.left: list[NodeLeft] = []
        self._scope = scope
        self._graph = graph
        self._facts = facts
        self._definitions: dict[int, list[NodeProto]] = {}
        self._buffers: dict[str, Value | None] = {}
        self._inliner = Inliner(graph, scope.opset, taken, self._integers)

    def write(self) -> Counter[str]:
        """Write the definitions of the nodes that have one; return their number by operator."""
        replaced = Counter[str]()
        for position, proto in enumerate(self._graph.node):
            op = self._scope.operator(proto.domain, proto.op_type)
            written = None if _is_standard(op) else self._written(self._scope.node(position))
            if written is None:
                continue
            self._definitions[position] = written
            replaced[operator_text(*op)] += 1
            if op == ACCUMULATOR:
                self._buffers[proto.output[0]] = self._scope.resolve(proto.input[0])
        return replaced

    def replace(self, once_read: set[str]) -> None:
        """Put the definitions in the place of their nodes, and drop what nothing reads any more."""
        if self._definitions:
            nodes = [
                new
                for position, proto in enumerate(self._graph.node)
                for new in self._definitions.get(position, [proto])
            ]
            del self._graph.node[:]
            self._graph.node.extend(nodes)
            self._declare()
        if unread := once_read.union(self._inliner.constants.values()):
            gone = unread - self.read() - {value.name for value in self._graph.input}  # a caller may give these
            remove_entries(self._graph.initializer, lambda tensor: tensor.name in gone)

    def read(self) -> set[str]:
        """Return the names that something in the graph reads, or that are its outputs."""
        return {*names_read(self._graph.node), *(value.name for value in self._graph.output)}

    def _written(self, node: Node) -> list[NodeProto] | None:
        """Return the nodes in place of a node; None if it stays, which is noted unless the model defines it."""
        if self._facts.is_function(node):
            return None
        try:
            return self._defined(node)
        except Refuse as refused:
            refusal = refused.refusal
            self.left.append(NodeLeft(node.label, operator_text(*node.op), refusal.code.value, refusal.reason))
            return None

    def _defined(self, node: Node) -> list[NodeProto]:
        definition = DEFINITIONS.get(node.op)
        if definition is None:
            code, reason = _undefined(node.op)
            raise Refuse(code, "{}", reason)
        results = _results(Call(node, self._facts, definition))
        written = self._inliner.nodes(next(iter(results), node.label), results)
        for new in written:
            new.metadata_props.extend(node.proto.metadata_props)
        return written

    def _integers(self, name: str) -> list[int] | None:
        """Return the elements of a constant vector of the graph, None if it is none."""
        value = self._scope.resolve(name)
        dims = None if value is None else self._facts.integers(value)
        return [dim.coefficient for dim in dims] if dims is not None and is_static(dims) else None

    def _declare(self) -> None:
        """Declare the new buffers like the old ones, in place of the flags that the accumulators had as outputs."""
        for declared in (*self._graph.output, *self._graph.value_info):
            old = self._buffers.get(declared.name)
            given = None if old is None else self._scope.declared(old.name)
            if given is not None:
                declared.type.CopyFrom(given.type)


def _results(call: Call) -> dict[str, Tensor]:
    """Return the outputs of a node by its definition. Raises `Refuse`, also for lists whose lengths do not fit."""
    try:
        written = call.definition.write(call)
        results = {call.outputs[0]: written} if isinstance(written, Tensor) else written
        return {
            actual: results[name] for name, actual in zip(call.outputs, call.node.proto.output, strict=False) if actual
        }
    except (ArithmeticError, LookupError, ValueError) as error:
        raise Refuse(DefinitionCode.UNCOVERED_OPERAND, "its attributes and operands do not fit: {}", error) from error


def _is_standard(op: tuple[str, str]) -> bool:
    """Whether a node of the operator stays without a word: one of ONNX without a definition, or of the dialect."""
    return op not in DEFINITIONS and (op[0] == DOMAIN or bool(onnx.defs.has(op[1], op[0])))


def _left_in_function(scope: Scope, facts: Facts) -> Iterator[NodeLeft]:
    """Yield the nodes of a function that are no operators of ONNX: no body is written for the sizes of all calls."""
    for position, proto in enumerate(scope.proto.node):
        op = scope.operator(proto.domain, proto.op_type)
        node = scope.node(position)
        if op[0] == DOMAIN or onnx.defs.has(op[1], op[0]) or facts.is_function(node):
            continue
        if op in DEFINITIONS:
            code, reason = DefinitionCode.UNCOVERED_OPERAND, f"it is in the body of {scope.path}"
        else:
            code, reason = _undefined(op)
        yield NodeLeft(node.label, operator_text(*op), code.value, reason)


def _undefined(op: tuple[str, str]) -> tuple[DefinitionCode, str]:
    return UNDEFINED.get(op, (DefinitionCode.NO_DEFINITION, f"{operator_text(*op)} is no operator of ONNX"))
