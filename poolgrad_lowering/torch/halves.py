# SPDX-License-Identifier: Apache-2.0

"""Models in float16 and bfloat16, in the arithmetic of PyTorch's kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_NUMPY_HALVES = tuple(dtype.numpy() for dtype in HALVES)


def has_halves(model: onnx.ModelProto) -> bool:
    """Whether a value of the model is declared as float16 or bfloat16."""
    graph = model.graph
    types = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info, *graph.output)}
    return not types.isdisjoint(HALVES)


def rounded_like_torch(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that computes each float16 and bfloat16 result in float32, and then rounds it to its type.

    PyTorch's kernels do this. onnxruntime's CPU provider has no kernels for bfloat16. What it lacks for float16 it
    computes in float32 too, but between two such operators it does not round: a pool may then choose another maximum,
    and the gradient of its window another element. Inputs and outputs become float32, which holds the same values.
    """
    found = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    graph = found.graph
    for value in graph.inputs:
        if value.dtype in HALVES:
            value.dtype = ir.DataType.FLOAT
    for number, value in enumerate(graph.outputs):
        if value.dtype in HALVES:
            (output,) = ir.node("Cast", [value], {"to": ir.DataType.FLOAT}, graph=graph).outputs
            value.name, output.name = f"{value.name}.short", value.name
            output.dtype, output.shape = ir.DataType.FLOAT, value.shape
            graph.outputs[number] = output
    compute_in_float32(graph, lambda *_, **__: False, separator=".")
    return ir.to_proto(found)


def in_float32(array: np.ndarray) -> np.ndarray:
    """Return the array in float32 if it is of a 16-bit floating-point type, and as it is otherwise."""
    return array.astype(np.float32) if array.dtype in _NUMPY_HALVES else array


def compute_in_float32(graph: ir.Graph, stays: Callable[..., bool], separator: str = "_") -> None:
    """Let nodes compute in float32 what is in 16 bits, and round their results.

    `stays` is whether an operand or a result of a node stays as it is, by the node, the value, its position, and the
    keyword `is_result`. Each result is rounded where it was, so a runtime that adds in float32 gives the same bits. In
    the names of new values `separator` follows the name of the old one; a graph can be rewritten once with each.
    """
    widened: dict[ir.Value, ir.Value] = {}
    for node in list(graph):
        for position, value in enumerate(node.inputs):
            if value is not None and value.dtype in HALVES and not stays(node, value, position, is_result=False):
                if value not in widened:
                    widened[value] = _widened(graph, value, separator)
                node.replace_input_with(position, widened[value])
        for position, value in enumerate(node.outputs):
            if value.dtype in HALVES and not stays(node, value, position, is_result=True):
                _round(graph, node, value, separator)


def _widened(graph: ir.Graph, value: ir.Value, separator: str) -> ir.Value:
    """Return the value in float32."""
    name = f"{value.name}{separator}float32"
    if value.const_value is not None and value.name in graph.initializers:
        return constant(graph, value.const_value.numpy().astype(np.float32), name)
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT}, name=f"node_{name}")
    cast.outputs[0].name, cast.outputs[0].shape = name, value.shape
    cast.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    producer = value.producer()
    if producer is None:
        graph.insert_before(graph[0], cast)
    else:
        graph.insert_after(producer, cast)
    return cast.outputs[0]


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value, separator: str) -> None:
    """Make a result float32, and give what reads it the rounded one.

    The types and constants in 16 bits that attributes of its node name become float32.
    """
    for key, held in node.attributes.items():
        if held.type == ir.AttributeType.TENSOR and held.as_tensor().dtype in HALVES:
            tensor = held.as_tensor()
            node.attributes[key] = ir.AttrTensor(key, ir.tensor(in_float32(tensor.numpy()), name=tensor.name))
        elif key in ("to", "dtype") and held.as_int() in HALVES:
            node.attributes[key] = ir.AttrInt64(key, ir.DataType.FLOAT)
    name, dtype = value.name, value.dtype
    rounding = ir.node("Cast", [value], {"to": dtype}, name=f"node_{name}{separator}rounded")
    rounded = rounding.outputs[0]
    rounded.shape, rounded.type = value.shape, value.type
    value.name, rounded.name = f"{name}{separator}unrounded", name
    value.type = ir.TensorType(ir.DataType.FLOAT)
    for reader, position in value.uses():
        if reader is not rounding:
            reader.replace_input_with(position, rounded)
    graph.outputs[:] = [rounded if output is value else output for output in graph.outputs]
    graph.insert_after(node, rounding)


def constant(graph: Any, array: Any, name: str) -> ir.Value:
    """Return a new initializer."""
    taken = {*graph.initializers, *(value.name for value in graph.inputs)}
    tensor = ir.tensor(array, name=unused(name, taken))
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def unused(name: str, taken: Iterable[str]) -> str:
    """Return the name, made longer until it is none of those that are taken."""
    while name in taken:
        name += "_"
    return name
