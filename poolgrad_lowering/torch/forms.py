# SPDX-License-Identifier: Apache-2.0

"""Rewrites an exported model into the forms that every runtime of training steps reads alike.

The compilers of accelerators read fewer forms of ONNX than onnxruntime. Ascend's, for one, reads of a Constant only
`value`, and of a Shape neither `start` nor `end`; it demands `kernel_shape` of convolutions. After `normalize`:

* constants are initializers;
* convolutions have `kernel_shape`, LogSoftmax has `axis`, Clip has both bounds;
* pools with `ceil_mode` have as many windows by ONNX's inference as by PyTorch;
* there is no CastLike, IsNaN and IsInf, and no Shape with bounds;
* random numbers get their shape from a value that is not a constant, else no provider but the CPU's takes them;
* results in 16 bits are only where the operator's definition allows them: at opset 18, convolutions and pools have no
  bfloat16, so they are computed in float32 and rounded;
* nodes have names, all different, and none that is the name of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, ShapeInferencePass

from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.halves import compute_in_float32, constant, unused

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
    compute_in_float32(model.graph, partial(_stays_in_16_bits, model.opset_imports[""]))


def name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a name that no other node and no value has."""
    graph = model.graph
    taken = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    taken |= {output for node in graph.node for output in node.output}
    for number, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = unused(f"node_{node.op_type}_{number}", taken)
        taken.add(node.name)


def _replace(graph: ir.Graph, node: ir.Node, written: Nodes) -> None:
    """Put nodes in the place of one."""
    for number, new in enumerate(written):
        new.name = f"{node.name}_{number}"
    ir.convenience.replace_nodes_and_values(graph, node, [node], list(written), node.outputs, written[-1].outputs)


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
            node.replace_input_with(position, constant(node.graph, array, f"{node.name}_bound_{position}"))


def _write_ends(node: ir.Node) -> None:
    """Let a pool with `ceil_mode` have no window that starts behind the input.

    PyTorch and onnxruntime leave such a window out; ONNX's inference counts it. Without `ceil_mode`, padding up to the
    end of the last window gives the same windows.

    Raises `TorchExportError` for wide dilated windows along one axis beside such windows along another: onnxruntime
    takes no padding of the kernel's size.
    """
    data = node.inputs[0]
    if not node.attributes.get_int("ceil_mode", 0) or data is None or data.shape is None:
        return
    sizes: list[Any] = list(data.shape[2:])
    kernel, strides, pads = (list(node.attributes[name].as_ints()) for name in ("kernel_shape", "strides", "pads"))
    dilations = node.attributes.get_ints("dilations", [1] * len(sizes))
    begins, ends = pads[: len(sizes)], pads[len(sizes) :]
    windows = list(map(AxisWindow, kernel, strides, begins, ends, dilations))
    exact = [
        (window.output_size(size, ceil=True) - 1) * window.stride + window.extent - size - window.begin
        for window, size in zip(windows, sizes, strict=True)
    ]  # up to the end of the last window; less than the end's padding if that has a further window
    if all(last >= end for last, end in zip(exact, ends, strict=True)):
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
    elif needed != ends and node.attributes.pop("count_include_pad", ir.AttrInt64("", 0)).as_int():
        # The padding counts, but not the elements up to the end of a window.
        wide = [begin + size + end for begin, size, end in zip(begins, sizes, ends, strict=True)]
        _pad_before(node, data, [0, 0, *begins, 0, 0, *ends], ir.Shape([*data.shape[:2], *wide]))
        begins, needed = [0] * len(sizes), [end - pad for end, pad in zip(needed, ends, strict=True)]
    node.attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", int(not rounded))
    node.attributes["pads"] = ir.AttrInt64s("pads", [*begins, *needed])


def _pad_before(node: ir.Node, data: ir.Value, pads: Sequence[int], shape: ir.Shape) -> None:
    """Pad the first operand of a node with zeros."""
    graph: Any = node.graph
    pad = ir.node(
        "Pad", [data, constant(graph, np.array(pads, np.int64), f"{node.name}_pads")], name=f"{node.name}_pad"
    )
    padded = pad.outputs[0]
    padded.type, padded.shape = data.type, shape
    graph.insert_before(node, pad)
    node.replace_input_with(0, padded)


_ATTRIBUTES: dict[str, Callable[[ir.Node], object]] = {
    "AveragePool": _write_ends,
    "Clip": _write_bounds,
    "Conv": _write_kernel_shape,
    "ConvTranspose": _write_kernel_shape,
    "LogSoftmax": lambda node: node.attributes.setdefault("axis", ir.AttrInt64("axis", -1)),
    "MaxPool": _write_ends,
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
    infinite = constant(node.graph, np.array(math.inf, data.dtype.numpy()), f"{node.name}_infinite")
    size = ir.node("Abs", [data])
    return size, ir.node("Equal", [*size.outputs, infinite])


def _write_shape(node: ir.Node) -> Nodes:
    """A Shape with bounds as a Slice of the whole shape."""
    if not node.attributes:
        return ()
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", np.iinfo(np.int64).max)
    bounds = [
        constant(node.graph, np.array([bound], np.int64), f"{node.name}_{name}")
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

    One that is like a constant becomes one like an element of a graph input, expanded to the constant's shape.
    """
    element: ir.Value | None = None
    for number, node in enumerate(node for node in list(graph) if node.op_type in names.RANDOM):
        _rename(graph, node, names.random(number))
        if node.outputs[0].dtype is not None:  # which is else the type of the operand
            node.attributes["dtype"] = ir.AttrInt64("dtype", node.outputs[0].dtype)
        like = node.inputs[0] if node.inputs else None
        if like is None or like.name not in graph.initializers or like.shape is None:
            continue
        if element is None:
            element = _one_element(graph)
        sizes = constant(graph, np.array(like.shape.numpy(), np.int64), f"{node.name}_sizes")
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
        [whole, *(constant(graph, np.array(value, np.int64), f"corner_{name}") for name, value in operands)],
        name="node_corner",
    )
    element = ir.node("Reshape", [*corner.outputs, constant(graph, np.array([1]), "one")], name="node_element")
    for node, sizes in ((corner, [1] * rank), (element, [1])):
        node.outputs[0].shape, node.outputs[0].type = ir.Shape(sizes), whole.type
    graph.insert_before(graph[0], (corner, element))
    return element.outputs[0]


# Operators without 16-bit types.


def _stays_in_16_bits(opset: int, node: ir.Node, value: ir.Value, position: int, *, is_result: bool) -> bool:
    """Whether the definition of an operator allows the type of an operand or a result."""
    schema: Any = onnx.defs.get_schema(node.op_type, opset)
    parameters = schema.outputs if is_result else schema.inputs
    kind = parameters[min(position, len(parameters) - 1)].type_str  # the last one may stand for many
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(kind, (kind,))
    return value.dtype is not None and f"tensor({value.dtype.name.lower()})" in allowed
