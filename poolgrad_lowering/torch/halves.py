# SPDX-License-Identifier: Apache-2.0

"""Models in float16 and bfloat16, in the arithmetic of PyTorch's kernels for the CPU."""

from __future__ import annotations

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
    nodes = list(graph)
    for value in graph.inputs:
        if value.dtype in HALVES:
            value.dtype = ir.DataType.FLOAT
    for value in graph.initializers.values():
        if value.dtype in HALVES and value.const_value is not None:
            value.const_value, value.dtype = _widened(value.const_value), ir.DataType.FLOAT
    for node in nodes:
        compute_in_float32(node)
        for value in node.outputs:
            if value.dtype in HALVES:
                graph.insert_after(node, _round(graph, value))
    return ir.to_proto(found)


def in_float32(array: np.ndarray) -> np.ndarray:
    """Return the array in float32 if it is of a 16-bit floating-point type, and as it is otherwise."""
    return array.astype(np.float32) if array.dtype in _NUMPY_HALVES else array


def compute_in_float32(node: ir.Node) -> None:
    """Replace the 16-bit types and constants that the node's attributes name by float32."""
    for name, held in node.attributes.items():
        if held.type == ir.AttributeType.TENSOR and held.as_tensor().dtype in HALVES:
            node.attributes[name] = ir.AttrTensor(name, _widened(held.as_tensor()))
        elif name in ("to", "dtype") and held.as_int() in HALVES:
            node.attributes[name] = ir.AttrInt64(name, ir.DataType.FLOAT)


def _round(graph: ir.Graph, value: ir.Value) -> tuple[ir.Node, ir.Node]:
    """Make a result float32, and return the nodes that round it for all that read it."""
    name = value.name
    narrowing = ir.node("Cast", [value], {"to": value.dtype})
    widening = ir.node("Cast", narrowing.outputs, {"to": ir.DataType.FLOAT})
    rounded = widening.outputs[0]
    value.name, rounded.name = f"{name}.unrounded", name
    value.dtype = rounded.dtype = ir.DataType.FLOAT
    rounded.shape = value.shape
    replace_reads(graph, value, rounded, narrowing)
    return narrowing, widening


def replace_reads(graph: ir.Graph, value: ir.Value, other: ir.Value, but: ir.Node) -> None:
    """Let all that read a value, except for one node, read another one; also the graph's outputs."""
    for node, position in value.uses():
        if node is not but:
            node.replace_input_with(position, other)
    graph.outputs[:] = [other if output is value else output for output in graph.outputs]


def _widened(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.tensor(in_float32(tensor.numpy()), name=tensor.name)
