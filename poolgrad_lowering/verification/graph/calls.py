# SPDX-License-Identifier: Apache-2.0

"""Converts a function of a model into a main graph, with the types and attributes of one of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, ValueInfoProto

from poolgrad_lowering.verification.graph.flat import FlatNode, called_name, function_name, main_unit
from poolgrad_lowering.verification.graph.protos import subgraphs
from poolgrad_lowering.verification.graph.types import tensor_types, value_info

_Pair = tuple[ModelProto, ModelProto]


def calls_of(models: _Pair, functions: tuple[FunctionProto, FunctionProto]) -> Iterator[_Pair]:
    """Yield a function of both models as main graphs, once for each call with different types or attributes.

    Only calls in the original's main graph and its subgraphs count, not those in other functions.
    """
    known = tensor_types(models[0])
    seen = set()
    for node in main_unit(models[0]).nodes:
        if called_name(node.proto) != function_name(functions[0]):
            continue
        values = [*node.inputs, *[""] * max(len(function.input) for function in functions)]  # a call may omit inputs
        pair = []
        for model, function in zip(models, functions, strict=True):
            inputs = [value_info(name, known.get(value)) for name, value in zip(function.input, values, strict=False)]
            pair.append(_as_graph(model, function, node, inputs))
        key = pair[0].SerializeToString(deterministic=True)
        if key not in seen:
            seen.add(key)
            yield pair[0], pair[1]


def _as_graph(
    model: ModelProto, function: FunctionProto, call: FlatNode, inputs: Sequence[ValueInfoProto]
) -> ModelProto:
    made = ModelProto(ir_version=model.ir_version)
    made.opset_import.extend(function.opset_import)
    made.functions.extend(model.functions)
    made.graph.name = function.name
    made.graph.input.extend(inputs)
    made.graph.output.extend(value_info(name, None) for name in function.output)
    made.graph.value_info.extend(function.value_info)
    made.graph.node.extend(function.node)
    given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.proto.attribute)}
    for node in made.graph.node:
        _give_attributes(node, given)
    return made


def _give_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Resolve the attribute references of a node and of its subgraphs; references without a value are removed."""
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        node.attribute.add().CopyFrom(source)
        node.attribute[-1].name = attribute.name
    for _, graph in subgraphs(node):
        for inner in graph.node:
            _give_attributes(inner, given)
