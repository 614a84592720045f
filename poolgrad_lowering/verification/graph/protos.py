# SPDX-License-Identifier: Apache-2.0

"""Reads attributes, subgraphs, tensors and operators of ONNX's messages, and replaces the entries of lists."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from copy import deepcopy
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.model.ir.graphs import subgraphs, with_inner
from poolgrad_lowering.model.ir.order import topological_order
from poolgrad_lowering.verification.arrays import AnyArray

_MOST_ELEMENTS = 1 << 10
_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


def default_opset(scope: ModelProto | FunctionProto) -> int:
    """Return the version of the default domain that a model or function imports; 1 without an import."""
    return next((entry.version for entry in scope.opset_import if entry.domain in ("", "ai.onnx")), 1)


def graphs_below(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    """Yield the subgraphs of nodes, each before those in its own nodes."""
    for node in nodes:
        for _, graph in subgraphs(node.attribute):
            yield graph
            yield from graphs_below(graph.node)


def node_bytes(node: NodeProto) -> bytes:
    """Return a node's bytes without its name, which has no meaning."""
    bare = deepcopy(node)
    bare.ClearField("name")
    return bytes(bare.SerializeToString(deterministic=True))


def replace_entries(message: Message, field: str, entries: Iterable[Message]) -> None:
    """Give a repeated field of a message these entries, which can be its own."""
    copies = type(message)(**{field: entries})
    message.ClearField(field)
    getattr(message, field).extend(getattr(copies, field))


def attribute_values(node: NodeProto) -> dict[str, Any]:
    """Return the values of a node's attributes by name, without those that refer to a function's attributes."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name}


def integers(tensor: TensorProto | None) -> list[int] | None:
    """Return the elements of a tensor of integers or flags, which is in the model; None for any other."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL or tensor.data_type not in _INTEGERS:
        return None
    return [int(number) for number in onnx.numpy_helper.to_array(tensor).reshape(-1)]


def text_of(node: NodeProto, attribute: str) -> str | None:
    """Return the text in an attribute of a node, or None if the node does not have it."""
    return next((a.s.decode(errors="replace") for a in node.attribute if a.name == attribute), None)


def same_operator(one: NodeProto, other: NodeProto) -> bool:
    """Whether two nodes have the same operator, attributes, and numbers of inputs and outputs.

    Of subgraphs only the names of the attributes are compared.
    """
    return _operator(one) == _operator(other)


def _operator(node: NodeProto) -> tuple[object, ...]:
    inner = {name for name, _ in subgraphs(node.attribute)}
    held = sorted((a.name, b"" if a.name in inner else a.SerializeToString(deterministic=True)) for a in node.attribute)
    return node.domain, node.op_type, node.overload, len(node.input), len(node.output), held


def holds(tensor: TensorProto | None, array: AnyArray) -> bool:
    """Whether a tensor, which is in the model, has the type, the shape and the bits of an array."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return False
    found = onnx.numpy_helper.to_array(tensor)
    return (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def in_order(model: ModelProto) -> ModelProto:
    """Return the model with every list of nodes in topological order; the same object if they all are."""
    orders = (topological_order(scope.node) for scope in scopes_of(model))
    if all(order == sorted(order) for order in orders):
        return model
    ordered = deepcopy(model)
    for scope in scopes_of(ordered):
        replace_entries(scope, "node", [scope.node[position] for position in topological_order(scope.node)])
    return ordered


def without_weights(model: ModelProto) -> ModelProto:
    """Return a copy of a model without functions and its graph's name, with inputs in place of weights.

    These are large initializers, and those in files: inference and the checker read the numbers of shapes at most.
    """
    made = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(made.graph, field).extend(getattr(model.graph, field))
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= _MOST_ELEMENTS and tensor.data_location != TensorProto.EXTERNAL:
            made.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            made.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return made


def scopes_of(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield the main graph, the functions and all subgraphs, outer ones first."""
    scopes: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for scope in scopes:
        yield scope
        yield from graphs_below(scope.node)


def restore_initializers(original: GraphProto, lowered: GraphProto, results: Collection[str] = ()) -> None:
    """Put back the initializers that nodes or results read, in their order, and drop those that nothing reads now."""
    read = {name for node in with_inner(lowered.node) for name in node.input}.union(results)
    theirs, own = ({tensor.name: tensor for tensor in graph.initializer} for graph in (original, lowered))
    stored = [own.get(name, tensor) for name, tensor in theirs.items() if name in own or name in read]
    stored += [tensor for name, tensor in own.items() if name not in theirs and name in read]
    replace_entries(lowered, "initializer", stored)
