# SPDX-License-Identifier: Apache-2.0

"""The pass: replaces each node of an operator of a training runtime by its definition."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.diagnostics.counted import counted
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ir.dims import is_static
from poolgrad_lowering.ir.graphs import names_read
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, Scope
from poolgrad_lowering.rewriting.rewrite import names
from poolgrad_lowering.standard.definition import Body, Call, Definition, operand_names
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.result import NodeLeft, Standardised
from poolgrad_lowering.standard.table import DEFINITIONS, UNDEFINED

logger = logging.getLogger(__name__)

ACCUMULATOR = ("com.microsoft", "InPlaceAccumulatorV2")


def standardise(model: ModelProto, index: ModelIndex, facts: Facts) -> Standardised:
    """Replace the operators of training runtimes in the model's graphs by their definitions, in place.

    `index` and `facts` are the model's, and invalid afterwards. A node without a definition stays as it is. Names of
    inputs and of values stay; the output of an InPlaceAccumulatorV2 is the new buffer, in place of a flag.
    """
    taken, replaced, left = names(index), Counter[str](), list[NodeLeft]()
    before = sum(len(scope.proto.node) for scope in index.scopes)
    for scope in index.scopes:
        if isinstance(scope.proto, GraphProto):
            inliner = Inliner(scope.proto, scope.opset, taken, partial(_integers, scope, facts))
            _standardise_graph(scope, facts, inliner, replaced, left)
    if replaced:
        _drop_imports(model)
    logger.info("%s replaced by definitions, %d left", counted(sum(replaced.values()), "node"), len(left))
    growth = sum(len(scope.proto.node) for scope in index.scopes) - before
    return Standardised(dict(replaced), tuple(left), growth)


def _standardise_graph(
    scope: Scope, facts: Facts, inliner: Inliner, replaced: Counter[str], left: list[NodeLeft]
) -> None:
    nodes: list[NodeProto] = []
    changed = False
    buffers: dict[str, int] = {}
    for position, proto in enumerate(scope.proto.node):
        op = scope.operator(proto.domain, proto.op_type)
        if op not in DEFINITIONS and (op[0] == DOMAIN or onnx.defs.has(op[1], op[0])):
            nodes.append(proto)
            continue
        node = scope.node(position)
        if facts.is_function(node):
            nodes.append(proto)
            continue
        try:
            written = _defined(node, facts, inliner)
        except Refuse as refused:
            left.append(NodeLeft(node.label, _shown(op), refused.refusal.code.value, refused.refusal.reason))
            nodes.append(proto)
            continue
        if node.op == ACCUMULATOR:
            buffers[proto.output[0]] = _element_type(node, facts)
        nodes += written
        changed = True
        replaced[_shown(op)] += 1
    if changed:
        _declare_buffers(scope, buffers)
        read_before = _read(scope.proto)
        kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del scope.proto.node[:]
        scope.proto.node.extend(kept)
        _drop_unread(scope.proto, read_before - _read(scope.proto))


def _defined(node: Node, facts: Facts, inliner: Inliner) -> list[NodeProto]:
    """Return the nodes in place of a node. Raises `Refuse`."""
    definition = DEFINITIONS.get(node.op)
    if definition is None:
        undefined = UNDEFINED.get(node.op)
        if undefined is not None:
            raise Refuse(undefined.code, "{}", undefined.reason)
        raise Refuse(Code.NO_DEFINITION, "{} is no operator of ONNX, and has no definition", _shown(node.op))
    body = written_body(node, facts, definition)
    proto = node.proto
    inputs = {
        name: actual
        for name, actual in zip(operand_names(definition.inputs, len(proto.input)), proto.input, strict=False)
        if actual
    }
    outputs = {
        name: actual
        for name, actual in zip(operand_names(definition.outputs, len(proto.output)), proto.output, strict=False)
        if actual
    }
    prefix = next(iter(outputs.values()), node.label)
    written = inliner.nodes(body, prefix, inputs, outputs)
    for new in written:
        new.metadata_props.extend(proto.metadata_props)
    return written


def written_body(node: Node, facts: Facts, definition: Definition) -> Body:
    """Return the body of a node by its definition. Raises `Refuse`."""
    written = definition.write(Call(node, facts, definition))
    return written if isinstance(written, Body) else Body(written)


def _integers(scope: Scope, facts: Facts, name: str) -> list[int] | None:
    """Return the elements of a constant vector of a graph, None if it is none."""
    value = scope.resolve(name)
    dims = None if value is None else facts.integers(value)
    return [dim.coefficient for dim in dims] if dims is not None and is_static(dims) else None


def _element_type(node: Node, facts: Facts) -> int:
    buffer = node.input(0)
    return (facts.element_type(buffer) if buffer is not None else None) or TensorProto.FLOAT


def _declare_buffers(scope: Scope, buffers: dict[str, int]) -> None:
    """Declare the new buffers in place of the flags that the accumulators had as outputs."""
    graph = scope.proto
    shapes = {value.name: value.type for value in graph.input}
    for node in graph.node:
        if scope.operator(node.domain, node.op_type) == ACCUMULATOR and node.output[0] in buffers:
            for value in (*graph.output, *graph.value_info):
                if value.name == node.output[0]:
                    declared = shapes.get(node.input[0])
                    if declared is not None:
                        value.type.CopyFrom(declared)
                    else:
                        value.type.Clear()
                        value.type.tensor_type.elem_type = buffers[node.output[0]]


def _read(graph: GraphProto) -> set[str]:
    return {*names_read(graph.node), *(value.name for value in graph.output)}


def _drop_unread(graph: GraphProto, unread: set[str]) -> None:
    """Remove the initializers that nothing reads any more, unless a caller may give them."""
    gone = unread.difference(value.name for value in graph.input)
    for position in reversed(range(len(graph.initializer))):
        if graph.initializer[position].name in gone:
            del graph.initializer[position]


def _drop_imports(model: ModelProto) -> None:
    """Remove the imports of domains of which no node is left; ONNX's own stays."""
    used = {node.domain for node in model.graph.node} | {function.domain for function in model.functions}
    used |= {node.domain for function in model.functions for node in function.node} | {"", "ai.onnx"}
    if any(attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute):
        return
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _shown(op: tuple[str, str]) -> str:
    return f"{op[0]}.{op[1]}" if op[0] else op[1]
