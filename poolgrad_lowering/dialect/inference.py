# SPDX-License-Identifier: Apache-2.0

"""Type and shape inference of the dialect's ops, independent of how schemas are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from onnx import TensorProto, TensorShapeProto, TypeProto, numpy_helper
from onnx.shape_inference import InferenceContext, InferenceError

from poolgrad_lowering.dialect import body_windows
from poolgrad_lowering.dialect.op import ASCEND_TYPES, DOMAIN, TYPES, Attribute, Op, value_of
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.model.windows import AxisWindow

#: The known sizes; None for a symbol. A shape is None if the rank is unknown.
Shape = tuple["int | None", ...]


class DialectError(PoolgradError, InferenceError):
    """A node of domain `npu` breaks the rules of its op; also an `InferenceError` of onnx."""


class CheckedNode:
    """The node during shape inference. Methods raise `DialectError` if the node breaks the rules of its op."""

    def __init__(self, op: Op, context: InferenceContext) -> None:
        self._op = op
        self._context = context

    def fail(self, text: str) -> NoReturn:
        """Raise `DialectError` with the op's name, the node's name and `text`."""
        raise DialectError(f"{DOMAIN}.{self._op.name} {self._context.get_display_name()}: {text}")

    def attribute_values(self) -> dict[str, Any]:
        """Return the values of all attributes, with defaults for absent ones."""
        return {attribute.name: self._attribute_value(attribute) for attribute in self._op.attributes}

    def index_type(self, values: Mapping[str, Any]) -> int | None:
        """Return the type of argmax that an attribute names (`TensorProto.DataType`); None if the op has none."""
        return None if self._op.index_type is None else ASCEND_TYPES[values[self._op.index_type]]

    def _attribute_value(self, attribute: Attribute) -> Any:
        try:
            return value_of(attribute, self._context.get_attribute(attribute.name))
        except ValueError as error:
            self.fail(f"attribute {attribute.name} {error}.")

    def tensor(self, position: int) -> TypeProto.Tensor | None:
        """Return the type of an input, with element type and rank checked; None if it is not known."""
        operand = self._op.inputs[position]
        known = cast("TypeProto | None", self._context.get_input_type(position))  # onnx's annotation lacks the None
        if known is None:
            return None
        if not known.HasField("tensor_type"):
            self.fail(f"{operand.name} is not a tensor.")
        tensor = known.tensor_type
        allowed = [TensorProto.DataType.Name(element_type) for element_type in TYPES[operand.type_variable]]
        if (name := type_name(tensor)) not in (None, *allowed):
            self.fail(f"{operand.name} has element type {name}, expected one of {', '.join(allowed)}.")
        ranks = self._op.ranks if operand.rank is None else (operand.rank,)
        if (shape := shape_of(tensor)) is not None and len(shape) not in ranks:
            self.fail(f"{operand.name} has rank {len(shape)}, expected one of {ranks}.")
        return tensor

    def require_same(self, what: str, one: str | None, other: str | None) -> None:
        """Fail if both are known and differ."""
        if None not in (one, other) and one != other:
            self.fail(f"{what} differ: {one} and {other}.")

    def require_same_shape(self, what: str, one: Shape | None, other: Shape | None, axes: int | None = None) -> None:
        """Fail if the shapes, or their first `axes` sizes, differ in rank or in a known size."""
        if one is None or other is None:
            return
        pairs = zip(one[:axes], other[:axes], strict=True) if len(one) == len(other) else None
        if pairs is None or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            self.fail(f"shapes of {what} differ: {_text(one)} and {_text(other)}.")


def type_name(tensor: TypeProto.Tensor | None) -> str | None:
    """Return the name of the element type; None if it is not known."""
    if tensor is None or tensor.elem_type == TensorProto.UNDEFINED:
        return None
    return TensorProto.DataType.Name(tensor.elem_type)


def shape_of(tensor: TypeProto.Tensor | None) -> Shape | None:
    """Return the shape, with None for unknown sizes; None if the rank is not known."""
    if tensor is None or not tensor.HasField("shape"):
        return None
    return tuple(size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim)


def _text(shape: Shape) -> str:
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + ")"


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
    if (difference := body_windows.window_difference(values)) is not None:
        node.fail(f"the window attributes contradict each other: {difference}.")
    rank, x = len(values[body_windows.KERNEL]), shape_of(node.tensor(0))
    if x is not None and len(x) != 2 + rank:
        node.fail(f"{body_windows.KERNEL} has {rank} values, and x has rank {len(x)}.")
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
    onnx_axis = axis - len(values["ksize"]) + len(values[body_windows.KERNEL])
    if onnx_axis >= 0 and (count := body_windows.onnx_count(values, onnx_axis, dim.dim_value)) != size:
        node.fail(f"for {dim.dim_value} elements Ascend's attributes give {size} windows, ONNX's {count}.")
    return Dim(dim_value=size)


def infer_windowed_average(op: Op, context: InferenceContext) -> None:
    """Set the result's type to that of the gradient, and its shape to orig_input_shape where that is constant.

    Raises `DialectError` if the attributes for the body do not say what Ascend's say, pads differ at the two ends or
    exceed half the window, or the gradient does not have the size that the windows give.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    if (flaw := window_flaw(values)) is not None:
        node.fail(f"{flaw}.")
    rank = len(values[body_windows.KERNEL])
    spatial = windows_of(values)[-rank:]
    sizes, grad = _sizes(node, context), node.tensor(1)
    grad_shape = shape_of(grad)
    if grad_shape is not None and len(grad_shape) != 2 + rank:
        node.fail(f"{body_windows.KERNEL} has {rank} values, and {op.inputs[1].name} has rank {len(grad_shape)}.")
    if sizes is not None:
        _require_windows(node, sizes, grad_shape, spatial, ceil=bool(values["ceil_mode"]))
    if sizes is None and grad_shape is not None:  # the batch and the channels are those of the gradient
        sizes = (*grad_shape[:2], *[None] * rank)
    _set(context, grad, sizes)


def window_flaw(values: Mapping[str, Any]) -> str | None:
    """Return a text on the first window attribute that is not allowed, or not for the body what it is for Ascend."""
    windows = windows_of(values)
    rank = len(values[body_windows.KERNEL])
    leading, spatial = windows[: len(windows) - rank], windows[len(windows) - rank :]
    if not 0 < rank <= len(windows) or any(window != AxisWindow(1, 1, 0, 0, 1) for window in leading):
        return f"{body_windows.KERNEL} has {rank} values, and ksize, strides and pads are for other axes"
    for window in spatial:
        if window.begin != window.end or window.begin > window.kernel // 2:
            return f"attribute pads has {window.begin} and {window.end} for a window of {window.kernel}"
    ceil, padded, divisor = bool(values["ceil_mode"]), counts_padding(values), values["divisor_override"]
    for_body = body_windows.average_window(spatial, ceil=ceil, count_include_pad=padded, divisor=divisor)
    for name, expected in for_body.items():
        found = list(values[name]) if isinstance(values[name], tuple) else values[name]
        if found != expected:
            what = f"{name} is {found}, and by Ascend's attributes it is {expected}"
            return f"the window attributes contradict each other: {what}"
    return None


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
