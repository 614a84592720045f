# SPDX-License-Identifier: Apache-2.0

"""Rewrites an exported model into the forms that every runtime of training steps reads alike.

The compilers of accelerators read fewer forms of ONNX than onnxruntime. Ascend's, for one, reads of a Constant only
`value`, and of a Shape neither `start` nor `end`; it demands `kernel_shape` of convolutions. After `normalize`:

* constants are initializers;
* convolutions have `kernel_shape`, LogSoftmax has `axis`, Clip has both bounds;
* there is no CastLike, IsNaN and IsInf, and no Shape with bounds;
* random numbers get their shape from a value that is not a constant, else no provider but the CPU's takes them;
* results in 16 bits are only where the operator's definition allows them: at opset 18, convolutions and pools have no
  bfloat16, so they are computed in float32 and rounded;
* nodes have names, all different, and none that is the name of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, ShapeInferencePass

from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.halves import HALVES, compute_in_float32, replace_reads

Nodes = tuple[ir.Node, ...]
"""Nodes that replace another one. The outputs of the last take the place of its outputs."""


def normalize(model: ir.Model) -> None:
    """Rewrite the model in place."""
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if not all(value.dtype for node in model.graph for value in node.outputs):  # of functions that are inlined
        ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
    for node in list(model.graph):
        if complete := _ATTRIBUTES.get(node.op_type):
            complete(node)
        if (write := _REPLACED.get(node.op_type)) and (written := write(node)):
            _replace(model.graph, node, written)
    _draw_from_values(model.graph)
    _widen_halves(model)


def name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a name that no other node and no value has."""
    graph = model.graph
    taken = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    taken |= {output for node in graph.node for output in node.output}
    for number, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = _unused(f"node_{node.op_type}_{number}", taken)
        taken.add(node.name)


def _unused(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _replace(graph: ir.Graph, node: ir.Node, written: Nodes) -> None:
    """Put nodes in the place of one."""
    for number, new in enumerate(written):
        new.name = f"{node.name}_{number}"
    ir.convenience.replace_nodes_and_values(graph, node, [node], list(written), node.outputs, written[-1].outputs)


def _constant(graph: Any, array: Any, name: str) -> ir.Value:
    """Return a new initializer."""
    tensor = ir.tensor(array, name=_unused(name, graph.initializers))
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


# Attributes that are written out.


def _write_kernel_shape(node: ir.Node) -> None:
    weight = node.inputs[1]
    if "kernel_shape" not in node.attributes and weight is not None and weight.shape is not None:
        node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", list(weight.shape.numpy()[2:]))


def _write_bounds(node: ir.Node) -> None:
    """Give a Clip both bounds. One that is missing becomes an infinity or the last number of the type.

    ONNX says the largest finite number; PyTorch's clamp, from which these nodes come, leaves infinities.
    """
    data, *bounds = node.inputs
    if data is None or data.dtype is None:
        return
    dtype = data.dtype
    limits = (-math.inf, math.inf)
    if not dtype.is_floating_point():
        limits = np.iinfo(dtype.numpy()).min, np.iinfo(dtype.numpy()).max
    node.resize_inputs(3)
    for position, limit in enumerate(limits, start=1):
        if len(bounds) < position or bounds[position - 1] is None:
            array = np.array(limit, dtype.numpy())
            node.replace_input_with(position, _constant(node.graph, array, f"{node.name}_bound_{position}"))


_ATTRIBUTES: dict[str, Callable[[ir.Node], object]] = {
    "Clip": _write_bounds,
    "Conv": _write_kernel_shape,
    "ConvTranspose": _write_kernel_shape,
    "LogSoftmax": lambda node: node.attributes.setdefault("axis", ir.AttrInt64("axis", -1)),
}
"""What is added to the operators, by operator."""


# Operators that are written as others.


def _write_constant(node: ir.Node) -> Nodes:
    """A constant that is an output of the graph, so that it is no initializer, with `value`."""
    (held,) = node.attributes.values()
    if held.name == "value":
        return ()
    dtype = np.int64 if held.name in ("value_int", "value_ints") else np.float32
    return (ir.node("Constant", [], {"value": ir.tensor(np.array(held.value, dtype))}),)


def _write_cast_like(node: ir.Node) -> Nodes:
    data, like = node.inputs
    if like is None or like.dtype is None:
        return ()
    return (ir.node("Cast", [data], {"to": like.dtype}),)


def _write_is_nan(node: ir.Node) -> Nodes:
    equal = ir.node("Equal", [node.inputs[0], node.inputs[0]])
    return equal, ir.node("Not", equal.outputs)


def _write_is_inf(node: ir.Node) -> Nodes:
    """IsInf of both signs, as torch's exporter writes it."""
    data = node.inputs[0]
    if data is None or data.dtype is None or node.attributes:
        return ()
    infinite = _constant(node.graph, np.array(math.inf, data.dtype.numpy()), f"{node.name}_infinite")
    size = ir.node("Abs", [data])
    return size, ir.node("Equal", [*size.outputs, infinite])


def _write_shape(node: ir.Node) -> Nodes:
    """A Shape with bounds as a Slice of the whole shape."""
    if not node.attributes:
        return ()
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", np.iinfo(np.int64).max)
    bounds = [
        _constant(node.graph, np.array([bound], np.int64), f"{node.name}_{name}")
        for name, bound in (("start", start), ("end", end))
    ]
    whole = ir.node("Shape", node.inputs)
    return whole, ir.node("Slice", [*whole.outputs, *bounds])


_REPLACED: dict[str, Callable[[ir.Node], Nodes]] = {
    "Constant": _write_constant,
    "CastLike": _write_cast_like,
    "IsNaN": _write_is_nan,
    "IsInf": _write_is_inf,
    "Shape": _write_shape,
}
"""The nodes that are written instead, by operator; none: the node stays."""


# Random numbers.


def _draw_from_values(graph: ir.Graph) -> None:
    """Number random tensors in the order of PyTorch, and let each get its shape from a value that is not a constant.

    A RandomUniformLike of a constant becomes one of an element of a graph input, expanded to the constant's shape.
    """
    element: ir.Value | None = None
    for number, node in enumerate(node for node in list(graph) if node.op_type == "RandomUniformLike"):
        _rename(graph, node, names.random(number))
        like = node.inputs[0]
        if like is None or like.name not in graph.initializers or like.shape is None:
            continue
        if element is None:
            element = _one_element(graph)
        sizes = _constant(graph, np.array(like.shape.numpy(), np.int64), f"{node.name}_sizes")
        expanded = ir.node("Expand", [element, sizes], name=f"{node.name}_like")
        expanded.outputs[0].shape, expanded.outputs[0].type = like.shape, element.type
        graph.insert_before(node, expanded)
        node.replace_input_with(0, expanded.outputs[0])


def _rename(graph: ir.Graph, node: ir.Node, name: str) -> None:
    """Give a result another name; an output of the graph becomes a copy of it, which keeps its name."""
    (value,) = node.outputs
    if value.is_graph_output():
        copy = ir.node("Identity", [value], name=f"{node.name}_copy")
        copied = copy.outputs[0]
        copied.name, copied.shape, copied.type = value.name, value.shape, value.type
        graph.outputs[:] = [copied if output is value else output for output in graph.outputs]
        graph.insert_after(node, copy)
    value.name = name


def _one_element(graph: ir.Graph) -> ir.Value:
    """Return an element of a graph input as a tensor of shape (1), computed before all other nodes."""
    whole = next(value for value in reversed(graph.inputs) if value.shape is not None and len(value.shape))
    rank = len(whole.shape or ())
    operands = [("starts", [0] * rank), ("ends", [1] * rank), ("axes", list(range(rank)))]
    corner = ir.node(
        "Slice",
        [whole, *(_constant(graph, np.array(value, np.int64), f"corner_{name}") for name, value in operands)],
        name="node_corner",
    )
    element = ir.node("Reshape", [*corner.outputs, _constant(graph, np.array([1]), "one")], name="node_element")
    for node, sizes in ((corner, [1] * rank), (element, [1])):
        node.outputs[0].shape, node.outputs[0].type = ir.Shape(sizes), whole.type
    graph.insert_before(graph[0], (corner, element))
    return element.outputs[0]


# Operators without 16-bit types.


def _widen_halves(model: ir.Model) -> None:
    """Let operators whose definition has no float16 or bfloat16 compute in float32, and round their results.

    Each result is rounded where it was, so a runtime that adds in float32 gives the same bits.
    """
    graph, opset = model.graph, model.opset_imports[""]
    widened: dict[ir.Value, ir.Value] = {}
    for node in list(graph):
        halves = [value for value in (*node.inputs, *node.outputs) if value is not None and value.dtype in HALVES]
        if not halves:
            continue
        schema: Any = onnx.defs.get_schema(node.op_type, opset)
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        for position, value in enumerate(node.inputs):
            if value is not None and not _is_allowed(value, _formal(schema.inputs, position), allowed):
                if value not in widened:
                    widened[value] = _widening(graph, value)
                node.replace_input_with(position, widened[value])
        for position, value in enumerate(node.outputs):
            if not _is_allowed(value, _formal(schema.outputs, position), allowed):
                _round(graph, node, value)


def _formal(parameters: Any, position: int) -> Any:
    """Return the formal parameter of an operand; the last one may stand for many."""
    return parameters[min(position, len(parameters) - 1)]


def _is_allowed(value: ir.Value, formal: Any, allowed: dict[str, set[str]]) -> bool:
    """Whether the definition allows the value, if it is in 16 bits."""
    return value.dtype not in HALVES or f"tensor({value.dtype.name.lower()})" in allowed.get(
        formal.type_str, {formal.type_str}
    )


def _widening(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """Return the value in float32."""
    if value.const_value is not None and value.name in graph.initializers:
        return _constant(graph, value.const_value.numpy().astype(np.float32), f"{value.name}_float32")
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT}, name=f"node_{value.name}_float32")
    cast.outputs[0].name, cast.outputs[0].shape = f"{value.name}_float32", value.shape
    cast.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    producer = value.producer()
    if producer is None:
        graph.insert_before(graph[0], cast)
    else:
        graph.insert_after(producer, cast)
    return cast.outputs[0]


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    """Make a result float32, and give what reads it the rounded one."""
    compute_in_float32(node)
    name, dtype = value.name, value.dtype
    rounding = ir.node("Cast", [value], {"to": dtype}, name=f"node_{name}_rounded")
    rounded = rounding.outputs[0]
    rounded.shape, rounded.type = value.shape, value.type
    value.name, rounded.name = f"{name}_unrounded", name
    value.type = ir.TensorType(ir.DataType.FLOAT)
    replace_reads(graph, value, rounded, rounding)
    graph.insert_after(node, rounding)
