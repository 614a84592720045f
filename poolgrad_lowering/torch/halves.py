# SPDX-License-Identifier: Apache-2.0

"""Models in float16 and bfloat16, in the arithmetic of PyTorch's kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.graph_writer import GraphWriter
from poolgrad_lowering.model.ir.graphs import names_of, names_read, rename_in

_NUMPY_HALVES = tuple(map(helper.tensor_dtype_to_np_dtype, HALF_TYPES))


def element_types(graph: GraphProto) -> dict[str, int]:
    """Return the element types of the values that a graph declares, by name."""
    declared = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in declared}


def has_halves(model: ModelProto) -> bool:
    """Whether a value of the model is declared as float16 or bfloat16."""
    return not set(element_types(model.graph).values()).isdisjoint(HALF_TYPES)


def rounded_like_torch(model: ModelProto) -> ModelProto:
    """Return a model that computes each float16 and bfloat16 result in float32, and then rounds it to its type.

    PyTorch's kernels do this. onnxruntime's CPU provider has no kernels for bfloat16. What it lacks for float16 it
    computes in float32 too, but between two such operators it does not round: a pool may then choose another maximum,
    and the gradient of its window another element. Inputs and outputs become float32, which holds the same values.
    """
    found = onnx.shape_inference.infer_shapes(model)
    graph = found.graph
    types = element_types(graph)
    short = {value.name: f"{value.name}.short" for value in graph.output if types[value.name] in HALF_TYPES}
    rename_in(graph.node, short)
    for value in graph.output:
        if value.name in short:
            _declare(graph, short[value.name], value, types[value.name])
            graph.node.append(helper.make_node("Cast", [short[value.name]], [value.name], to=TensorProto.FLOAT))
    for value in (*graph.input, *graph.output):
        if types[value.name] in HALF_TYPES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    compute_in_float32(graph, lambda *_, **__: False)
    return found


def without_halves(model: ModelProto) -> ModelProto:
    """Return a model that computes in float32 what the given one computes in float16 and bfloat16."""
    found = ModelProto()
    found.CopyFrom(model)
    for value in (*found.graph.input, *found.graph.value_info, *found.graph.output):
        if value.type.tensor_type.elem_type in HALF_TYPES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in found.graph.initializer:
        _hold_in_float32(tensor)
    for node in found.graph.node:
        _name_float32(node)
    return found


def in_float32(array: np.ndarray) -> np.ndarray:
    """Return the array in float32 if it is of a 16-bit floating-point type, and as it is otherwise."""
    return array.astype(np.float32) if array.dtype in _NUMPY_HALVES else array


def compute_in_float32(graph: GraphProto, stays: Callable[..., bool]) -> None:
    """Let nodes compute in float32 what is in 16 bits, and round their results.

    `stays` is whether an operand or a result of a node stays as it is, by the node, its element type, its position, and
    the keyword `is_result`. Each result is rounded where it was, so a runtime that adds in float32 gives the same bits.
    """
    _Widening(graph).write(stays)


class _Widening:
    """A graph while its nodes are rewritten to compute in float32. `_wide` are values in float32, by the short ones."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._writer = GraphWriter(graph, names_of(graph))
        self._declared = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._types = element_types(graph) | {name: tensor.data_type for name, tensor in self._stored.items()}
        self._read = {*names_read(graph.node), *(value.name for value in graph.output)}
        self._wide: dict[str, str] = {}

    def write(self, stays: Callable[..., bool]) -> None:
        for node in self._graph.node:
            halves = [
                (is_result, position, name)
                for is_result, listed in ((False, node.input), (True, node.output))
                for position, name in enumerate(listed)
                if (element := self._types.get(name)) in HALF_TYPES
                and not stays(node, element, position, is_result=is_result)
            ]
            for is_result, position, name in halves:
                if not is_result:
                    node.input[position] = self._widened(name)
            self._writer.keep(node)
            for is_result, position, name in halves:
                if is_result:
                    self._round(node, position, name)
        self._writer.replace_nodes()

    def _widened(self, name: str) -> str:
        if name not in self._wide:
            wide = f"{name}_float32"
            if name in self._stored:
                array = numpy_helper.to_array(self._stored[name])
                wide = self._writer.constant(wide, array.astype(np.float32))
            else:
                wide = self._writer.add("Cast", [name], self._writer.name(wide), to=TensorProto.FLOAT)
                _declare(self._graph, wide, self._declared[name], TensorProto.FLOAT)
            self._wide[name] = wide
        return self._wide[name]

    def _round(self, node: NodeProto, position: int, name: str) -> None:
        """Make a result float32, and round it for what reads it."""
        _name_float32(node)
        declared, node.output[position] = self._declared[name], self._writer.name(f"{name}_unrounded")
        if name in self._read:
            _declare(self._graph, node.output[position], declared, TensorProto.FLOAT)
            self._writer.add("Cast", [node.output[position]], name, to=self._types[name])
        else:  # the declaration would be of no value
            declared.name, declared.type.tensor_type.elem_type = node.output[position], TensorProto.FLOAT


def _declare(graph: GraphProto, name: str, like: ValueInfoProto, element: int) -> None:
    value = graph.value_info.add()
    value.CopyFrom(like)
    value.name, value.type.tensor_type.elem_type = name, element


def _name_float32(node: NodeProto) -> None:
    """Let the attributes of a node name float32 in place of 16-bit types, and hold constants in float32."""
    for held in node.attribute:
        if held.HasField("t"):
            _hold_in_float32(held.t)
        elif held.name in ("to", "dtype") and held.i in HALF_TYPES:
            held.i = TensorProto.FLOAT


def _hold_in_float32(tensor: TensorProto) -> None:
    if tensor.data_type in HALF_TYPES:
        tensor.CopyFrom(numpy_helper.from_array(in_float32(numpy_helper.to_array(tensor)), tensor.name))
