# SPDX-License-Identifier: Apache-2.0

"""Type and shape inference of the dialect's ops, independent of how schemas are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx import TensorProto, TensorShapeProto, TypeProto
from onnx.shape_inference import InferenceContext

from poolgrad_lowering.dialect import onnx_window
from poolgrad_lowering.dialect.checked_node import CheckedNode, shape_of, type_name
from poolgrad_lowering.dialect.op import Op
from poolgrad_lowering.model.windows import AxisWindow

Dim = TensorShapeProto.Dimension


def infer_gradient(op: Op, context: InferenceContext) -> None:
    """Check the node against `op` and set the type and shape of y to those of x.

    x and grad must have the same element type; all inputs the same rank, batch and channels; grad and argmax the same
    shape. Sizes are compared if both are numbers; unknown types and shapes are not checked.
    Raises `DialectError`.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    x, grad, argmax = (node.tensor(position) for position in range(len(op.inputs)))
    node.require_same("element types of x and grad", type_name(x), type_name(grad))
    if (index_type := node.index_type(values)) is not None:
        named = TensorProto.DataType.Name(index_type)
        node.require_same(f"attribute {op.index_type} and the element type of argmax", named, type_name(argmax))
    node.require_same_shape("x and grad: batch and channels", shape_of(x), shape_of(grad), axes=2)
    node.require_same_shape("x and argmax: batch and channels", shape_of(x), shape_of(argmax), axes=2)
    node.require_same_shape("grad and argmax", shape_of(grad), shape_of(argmax))
    if x is not None:
        context.set_output_type(0, TypeProto(tensor_type=x))


def infer_pool(op: Op, context: InferenceContext) -> None:
    """Set y and argmax to the pooled shape; a symbolic size is kept if the windows keep every size, else unknown.

    Raises `DialectError` if pads exceed half the window, windows do not fit, an axis that x does not have is pooled, or
    Ascend's and ONNX's window attributes differ.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    for pad, kernel in zip(values["pads"], values["ksize"], strict=True):
        if pad > kernel // 2:
            node.fail(f"attribute pads is {values['pads']}, more than half of ksize {values['ksize']}.")
    if (difference := onnx_window.window_difference(values)) is not None:
        node.fail(f"the window attributes contradict each other: {difference}.")
    rank, x = len(values[onnx_window.KERNEL]), shape_of(node.tensor(0))
    if x is not None and len(x) != 2 + rank:
        node.fail(f"{onnx_window.KERNEL} has {rank} values, and x has rank {len(x)}.")
    _infer(op, context, node, values, lambda axis, dim: _pooled_dim(node, values, axis, dim))


def infer_adaptive_pool(op: Op, context: InferenceContext) -> None:
    """Set y and argmax to the shape that output_size defines.

    Raises `DialectError` if an axis that x does not have is pooled.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    _infer(op, context, node, values, lambda axis, _: Dim(dim_value=values["output_size"][axis]))


def _infer(
    op: Op, context: InferenceContext, node: CheckedNode, values: Mapping[str, Any], pooled: Callable[[int, Dim], Dim]
) -> None:
    """Set both outputs; `pooled(axis, dim)` returns the size of y on an axis of the attributes with size `dim` in x."""
    x = node.tensor(0)
    y = TypeProto.Tensor(elem_type=TensorProto.UNDEFINED if x is None else x.elem_type)
    if x is not None and x.HasField("shape"):
        spatial = x.shape.dim[2:]
        absent = op.axes - len(spatial)
        for axis in range(absent):
            if pooled(axis, Dim(dim_value=1)).dim_value != 1:
                node.fail(f"the attributes pool axis {axis}, which x of rank {len(x.shape.dim)} does not have.")
        dims = [*x.shape.dim[:2], *(pooled(absent + axis, dim) for axis, dim in enumerate(spatial))]
        y.shape.CopyFrom(TensorShapeProto(dim=dims))
    argmax = TypeProto.Tensor(elem_type=node.index_type(values))
    if y.HasField("shape"):
        argmax.shape.CopyFrom(y.shape)
    if x is not None:
        context.set_output_type(0, TypeProto(tensor_type=y))
    if context.get_num_outputs() > 1:
        context.set_output_type(1, TypeProto(tensor_type=argmax))


def _pooled_dim(node: CheckedNode, values: Mapping[str, Any], axis: int, dim: Dim) -> Dim:
    kernel, stride, pad, dilation = (values[name][axis] for name in ("ksize", "strides", "pads", "dilation"))
    window = AxisWindow(kernel, stride, pad, pad, dilation)
    if not dim.HasField("dim_value"):
        keeps_size = stride == 1 and window.extent == 2 * pad + 1
        return dim if keeps_size else Dim()
    size = window.output_size(dim.dim_value, ceil=bool(values["ceil_mode"]))
    if size < 1:
        node.fail(f"no window of {window.extent} elements fits into {dim.dim_value} elements with padding {pad}.")
    onnx_axis = axis - len(values["ksize"]) + len(values[onnx_window.KERNEL])
    if onnx_axis >= 0 and (count := onnx_window.onnx_count(values, onnx_axis, dim.dim_value)) != size:
        node.fail(f"for {dim.dim_value} elements Ascend's attributes give {size} windows, ONNX's {count}.")
    return Dim(dim_value=size)
