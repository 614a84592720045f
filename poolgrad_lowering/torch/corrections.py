# SPDX-License-Identifier: Apache-2.0

"""Corrects what torch's exporter writes, such that the step is valid ONNX and computes what PyTorch computes.

* a Clip has both bounds;
* a Euclidean norm is the root of a sum of squares: GE has no ReduceL2 at opset 18;
* pools with `ceil_mode` have as many windows by ONNX's inference as by PyTorch, and averages the same divisors in all
  releases of onnxruntime: older ones count elements behind the padding as padding;
* results in 16 bits are only where the operator's definition allows them: at opset 18, convolutions and pools have no
  bfloat16, so they are computed in float32 and rounded;
* random numbers are values with the names of their nodes, which are in PyTorch's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graph_writer import GraphWriter
from poolgrad_lowering.model.ir.graphs import names_of, opset_of, rename_in
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.halves import compute_in_float32


def correct(model: ModelProto) -> None:
    """Correct the main graph of a model in place. Its nodes are in topological order, and its values declared."""
    graph = model.graph
    _name_random_numbers(graph)
    types = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info, *graph.output)}
    writer = GraphWriter(graph, names_of(graph))
    for node in graph.node:
        if write := _CORRECTIONS.get(node.op_type):
            write(node, types.get(node.input[0], onnx.TypeProto.Tensor()), writer)
        writer.keep(node)
    writer.replace_nodes()
    compute_in_float32(graph, partial(_stays_in_16_bits, opset_of(model)))


def _write_bounds(node: NodeProto, data: onnx.TypeProto.Tensor, writer: GraphWriter) -> None:
    """Give a Clip of floating-point numbers both bounds. One that is missing becomes an infinity.

    ONNX says the largest finite number; PyTorch's clamp, from which these nodes come, leaves infinities.
    """
    if data.elem_type not in FLOAT_TYPES:
        return
    dtype = helper.tensor_dtype_to_np_dtype(data.elem_type)
    operands = [*node.input, "", ""][:3]
    for position, limit in ((1, -math.inf), (2, math.inf)):
        operands[position] = operands[position] or writer.constant(f"{node.name}_bound", np.array(limit, dtype))
    node.input[:] = operands


def _write_ends(node: NodeProto, data: onnx.TypeProto.Tensor, writer: GraphWriter) -> None:
    """Let a pool with `ceil_mode` have no window that starts behind the input.

    PyTorch and onnxruntime leave such a window out; ONNX's inference counts it. Without `ceil_mode`, padding up to the
    end of the last window gives the same windows.

    Raises `TorchExportError` for wide dilated windows along one axis beside such windows along another: onnxruntime
    takes no padding of the kernel's size.
    """
    held: dict[str, Any] = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    sizes = [dim.dim_value for dim in data.shape.dim][2:]
    if not held.get("ceil_mode") or not sizes:
        return
    kernel, strides, pads = held["kernel_shape"], held["strides"], held["pads"]
    begins, ends = pads[: len(sizes)], pads[len(sizes) :]
    if held.get("count_include_pad") and not any(pads):
        [counts] = [each for each in node.attribute if each.name == "count_include_pad"]
        counts.i = held["count_include_pad"] = 0
    windows = list(map(AxisWindow, kernel, strides, begins, ends, held.get("dilations", [1] * len(sizes))))
    if any(window.stride > window.extent and not size for window, size in zip(windows, sizes, strict=True)):
        return  # which elements are behind the last window, a symbolic size decides
    exact = [
        window.overhang(size, window.output_size(size, ceil=True)) for window, size in zip(windows, sizes, strict=True)
    ]  # up to the end of the last window; less than the end's padding if that has a further window
    counts_more = held.get("count_include_pad") and all(sizes) and any(map(gt, exact, ends))
    if all(last >= end for last, end in zip(exact, ends, strict=True)) and not counts_more:
        return
    needed = list(map(max, exact, ends))
    rounded = all(end < extent for end, extent in zip(needed, kernel, strict=True))
    if not rounded:
        needed = list(map(min, exact, ends))
        if min(needed) < 0:
            raise TorchExportError(
                f"a max pool in ceil_mode has dilated windows that end {max(exact)} elements behind its input along "
                "one axis, and leaves elements out along another: no pool of onnxruntime has both"
            )
    elif needed != ends and held.get("count_include_pad"):
        # The padding counts, but not the elements up to the end of a window.
        widths = writer.constant(f"{node.name}_pads", np.array([0, 0, *begins, 0, 0, *ends], np.int64))
        node.input[0] = writer.add("Pad", [node.input[0], widths], writer.name(f"{node.input[0]}_padded"))
        begins, needed = [0] * len(sizes), [end - pad for end, pad in zip(needed, ends, strict=True)]
        held["count_include_pad"] = 0
    held |= {"ceil_mode": int(not rounded), "pads": [*begins, *needed]}
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(name, value) for name, value in held.items())


def _write_root(node: NodeProto, _: onnx.TypeProto.Tensor, writer: GraphWriter) -> None:
    """Write a ReduceL2, of float32 or wider, as the Sqrt of a ReduceSumSquare, which has its bits in onnxruntime."""
    held = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    squares = writer.add("ReduceSumSquare", node.input, writer.name(f"{node.output[0]}_squares"), **held)
    node.op_type, node.input[:] = "Sqrt", [squares]
    del node.attribute[:]


_CORRECTIONS: dict[str, Callable[[NodeProto, onnx.TypeProto.Tensor, GraphWriter], None]] = {
    "AveragePool": _write_ends,
    "Clip": _write_bounds,
    "MaxPool": _write_ends,
    "ReduceL2": _write_root,
}
"""What is corrected in the operators, by operator, of a node and the type of its first operand."""


def _name_random_numbers(graph: onnx.GraphProto) -> None:
    """Name random tensors as their nodes, and declare the shapes of what they are like.

    An output of the graph becomes a copy, which keeps its name.
    """
    renamed = {node.output[0]: node.name for node in graph.node if node.op_type in names.RANDOM}
    rename_in(graph.node, renamed)
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    for name in renamed.keys() & {value.name for value in graph.output}:
        graph.node.append(helper.make_node("Identity", [renamed[name]], [name], f"{renamed[name]}/copy"))
        graph.value_info.append(declared[name])
    for value in graph.value_info:
        value.name = renamed.get(value.name, value.name)
    shapes = {value.name: value.type.tensor_type.shape for value in (*graph.output, *graph.value_info)}
    for node in graph.node:
        is_declared = shapes.keys() >= {*node.input[:1], *node.output}  # a ConstantOfShape is not
        if node.op_type in names.RANDOM and node.input and is_declared:
            shapes[node.input[0]].CopyFrom(shapes[node.output[0]])


def _stays_in_16_bits(opset: int, node: NodeProto, element: int, position: int, *, is_result: bool) -> bool:
    """Whether the definition of an operator allows the type of an operand or a result."""
    schema: Any = onnx.defs.get_schema(node.op_type, opset)
    parameters = schema.outputs if is_result else schema.inputs
    kind = parameters[min(position, len(parameters) - 1)].type_str  # the last one may stand for many
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(kind, (kind,))
    return f"tensor({TensorProto.DataType.Name(element).lower()})" in allowed
