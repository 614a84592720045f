# SPDX-License-Identifier: Apache-2.0

"""Type and shape inference of the gradients of average pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto, TypeProto, numpy_helper
from onnx.shape_inference import InferenceContext

from poolgrad_lowering.dialect import average_window
from poolgrad_lowering.dialect.checked_node import CheckedNode, Shape, shape_of, type_name
from poolgrad_lowering.dialect.op import Op
from poolgrad_lowering.model.windows import AxisWindow


def infer_windowed_average(op: Op, context: InferenceContext) -> None:
    """Set the result's type to that of the gradient, and its shape to orig_input_shape where that is constant.

    Raises `DialectError` if the attributes for the body do not say what Ascend's say, pads differ at the two ends or
    exceed half the window, or the gradient does not have the size that the windows give.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    if (flaw := window_flaw(values)) is not None:
        node.fail(f"{flaw}.")
    rank = len(values[average_window.KERNEL])
    spatial = windows_of(values)[-rank:]
    sizes, grad = _sizes(node, context), node.tensor(1)
    grad_shape = shape_of(grad)
    if grad_shape is not None and len(grad_shape) != 2 + rank:
        node.fail(f"{average_window.KERNEL} has {rank} values, and {op.inputs[1].name} has rank {len(grad_shape)}.")
    if sizes is not None:
        _require_windows(node, sizes, grad_shape, spatial, ceil=bool(values["ceil_mode"]))
    if sizes is None and grad_shape is not None:  # the batch and the channels are those of the gradient
        sizes = (*grad_shape[:2], *[None] * rank)
    _set(context, grad, sizes)


def window_flaw(values: Mapping[str, Any]) -> str | None:
    """Return a text on the first window attribute that is not allowed, or not for the body what it is for Ascend."""
    windows = windows_of(values)
    rank = len(values[average_window.KERNEL])
    leading, spatial = windows[: len(windows) - rank], windows[len(windows) - rank :]
    if not 0 < rank <= len(windows) or any(window != AxisWindow(1, 1, 0, 0, 1) for window in leading):
        return f"{average_window.KERNEL} has {rank} values, and ksize, strides and pads are for other axes"
    for window in spatial:
        if window.begin != window.end or window.begin > window.kernel // 2:
            return f"attribute pads has {window.begin} and {window.end} for a window of {window.kernel}"
    expected = average_window.average_window(
        spatial,
        ceil=bool(values["ceil_mode"]),
        count_include_pad=counts_padding(values),
        divisor=values["divisor_override"],
    )
    difference = average_window.difference(values, expected)
    return None if difference is None else f"the window attributes contradict each other: {difference}"


def windows_of(values: Mapping[str, Any]) -> list[AxisWindow]:
    """Return the windows along the axes of an operator, from Ascend's attributes."""
    kernels, strides, pads = (values[name] for name in ("ksize", "strides", "pads"))
    axes = len(pads) // 2
    rows = zip(kernels[-axes:], strides[-axes:], pads[0::2], pads[1::2], strict=True)
    return [AxisWindow(kernel, stride, begin, end, 1) for kernel, stride, begin, end in rows]


def counts_padding(values: Mapping[str, Any]) -> bool:
    """Return whether windows count their elements in the padding: `exclusive` and `count_include_pad` are opposites."""
    return bool(values["count_include_pad"]) if "count_include_pad" in values else not values["exclusive"]


def infer_adaptive_average(op: Op, context: InferenceContext) -> None:
    """Set the type and shape of the result to those of x. Raises `DialectError` if the gradient's do not fit."""
    node = CheckedNode(op, context)
    node.attribute_values()
    grad, x = node.tensor(0), node.tensor(1)
    node.require_same("element types of y_grad and x", type_name(grad), type_name(x))
    node.require_same_shape("y_grad and x: batch and channels", shape_of(grad), shape_of(x), axes=2)
    if x is not None:
        context.set_output_type(0, TypeProto(tensor_type=x))


def infer_shaped_adaptive_average(op: Op, context: InferenceContext) -> None:
    """Set the result's shape to the attribute orig_input_shape. Raises `DialectError` if that of grad does not fit."""
    node = CheckedNode(op, context)
    sizes, grad = tuple(node.attribute_values()["orig_input_shape"]), node.tensor(0)
    node.require_same_shape("input_grad and x: batch and channels", shape_of(grad), sizes, axes=2)
    _set(context, grad, sizes)


def _sizes(node: CheckedNode, context: InferenceContext) -> Shape | None:
    """Return orig_input_shape where it is constant."""
    node.tensor(0)
    stored = context.get_input_data(0)
    if stored is None or stored.data_type != TensorProto.INT32:
        return None
    sizes = tuple(int(size) for size in numpy_helper.to_array(stored).reshape(-1))
    if any(size < 0 for size in sizes):
        node.fail(f"orig_input_shape is {sizes}.")
    return sizes


def _require_windows(
    node: CheckedNode, sizes: Shape, grad: Shape | None, windows: Sequence[AxisWindow], *, ceil: bool
) -> None:
    if len(sizes) != 2 + len(windows):
        node.fail(f"orig_input_shape has {len(sizes)} values, and the windows have {len(windows)} axes.")
    pairs = zip(windows, sizes[2:], strict=True)
    counts = [window.output_size(size, ceil=ceil) for window, size in pairs if size is not None]
    if min(counts) < 1 and 0 not in sizes:
        node.fail(f"no window fits into orig_input_shape {sizes}.")
    node.require_same_shape("the gradient and the windows over x", grad, (*sizes[:2], *counts))


def _set(context: InferenceContext, grad: TypeProto.Tensor | None, sizes: Shape | None) -> None:
    """Set the result: the gradient's type, and a shape with the gradient's names of batch and channels."""
    if grad is None:
        return
    result = TypeProto.Tensor(elem_type=grad.elem_type)
    for axis, size in enumerate(sizes or ()):
        dim = result.shape.dim.add()
        if size is not None:
            dim.dim_value = size
        elif axis < 2 and grad.HasField("shape"):
            dim.CopyFrom(grad.shape.dim[axis])
    context.set_output_type(0, TypeProto(tensor_type=result))
