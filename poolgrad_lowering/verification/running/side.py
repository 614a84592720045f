# SPDX-License-Identifier: Apache-2.0

"""Builds a model from one side of a cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy

from onnx import FunctionProto, ModelProto, NodeProto

from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import subgraphs
from poolgrad_lowering.verification.graph.types import TensorType, value_info
from poolgrad_lowering.verification.sites.cut import Cut


def side_model(
    source: ModelProto,
    cut: Cut,
    nodes: Sequence[FlatNode],
    types: Mapping[str, TensorType],
    outputs: Iterable[str] | None = None,
) -> ModelProto:
    """Return a model with these nodes of the cut, its inputs, and the version, imports and functions of `source`.

    `outputs` defaults to the region's outputs. Values with an entry in `types` are declared.
    """
    model = ModelProto(ir_version=source.ir_version, producer_name="poolgrad verify")
    model.opset_import.extend(source.opset_import)
    model.functions.extend(_called(source, [node.proto for node in nodes]))
    graph = model.graph
    graph.name = "site"
    graph.node.extend(_node(node, cut.inputs) for node in nodes)
    results = list(cut.region.outputs if outputs is None else outputs)
    graph.input.extend(value_info(value, types.get(value)) for value in cut.inputs)
    graph.output.extend(value_info(value, types.get(value)) for value in results)
    read = {value for node in nodes for value in (*node.inputs, *node.captured)}
    for value in (value for value in cut.constants if value in read):
        graph.initializer.append(cut.constants[value])
        graph.initializer[-1].name = value
    inner = {value for node in nodes for value in node.outputs if value} - set(results)
    graph.value_info.extend(value_info(value, types[value]) for value in sorted(inner) if value in types)
    return model


def independent(nodes: Sequence[FlatNode], values: Collection[str]) -> list[FlatNode]:
    """Return the nodes that do not depend on any of the values."""
    reached, found = set(values), []
    for node in nodes:
        if reached.intersection(node.inputs) or reached.intersection(node.captured):
            reached.update(node.outputs)
        else:
            found.append(node)
    return found


def _called(source: ModelProto, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
    """Return the functions of a model that nodes call, callees before callers, as onnx's evaluator requires."""
    known = {(function.domain, function.name, function.overload): function for function in source.functions}
    found: dict[tuple[str, str, str], FunctionProto] = {}

    def visit(called: Iterable[NodeProto]) -> None:
        for node in called:
            for _, graph in subgraphs(node):
                visit(graph.node)
            key = node.domain, node.op_type, node.overload
            function = known.pop(key, None)
            if function is not None:
                visit(function.node)
                found[key] = function

    visit(nodes)
    return list(found.values())


def _node(node: FlatNode, free: Collection[str]) -> NodeProto:
    """Return the node with the flat names of its values. Outputs that are free values of the cut are renamed."""
    proto = deepcopy(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend(node.inputs)
    proto.output.extend(f"{value} (not read)" if value in free else value for value in node.outputs)
    return proto
