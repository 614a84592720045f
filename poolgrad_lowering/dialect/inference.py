"""Type and shape inference of the dialect's gradient ops.

Knows the table and onnx's inference context; not how or when schemas are registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from onnx import TensorProto, TypeProto
from onnx.shape_inference import InferenceError

from poolgrad_lowering.dialect.attributes import value_of
from poolgrad_lowering.dialect.ops import ASCEND_TYPES, DOMAIN, TYPES, Op
from poolgrad_lowering.errors import PoolgradError

if TYPE_CHECKING:
    from onnx.shape_inference import InferenceContext

    from poolgrad_lowering.dialect.ops import Attribute

#: Sizes as far as they are known; None in place of a symbol. A shape is None where even the rank is unknown.
Shape = tuple["int | None", ...]


class DialectError(PoolgradError, InferenceError):
    """A node of domain `npu` breaks the rules of its op; among onnx's errors it is an `InferenceError`."""


def infer_gradient(op: Op, context: InferenceContext) -> None:
    """Give y the type and shape of x, after checking the node against `op`.

    x and grad share their element type. All three inputs share rank, batch and channels, grad and argmax every size;
    sizes are compared where both are numbers, and operands whose type or shape is not known are not checked.
    Raises `DialectError`.
    """
    node = _Node(op, context)
    values = node.attribute_values()
    x, grad, argmax = (node.tensor(position) for position in range(len(op.inputs)))
    node.require_same("element types of x and grad", _type_name(x), _type_name(grad))
    if op.index_type is not None:
        named = TensorProto.DataType.Name(ASCEND_TYPES[values[op.index_type]])
        node.require_same(f"attribute {op.index_type} and the element type of argmax", named, _type_name(argmax))
    node.require_same_shape("x and grad: batch and channels", _shape(x), _shape(grad), axes=2)
    node.require_same_shape("x and argmax: batch and channels", _shape(x), _shape(argmax), axes=2)
    node.require_same_shape("grad and argmax", _shape(grad), _shape(argmax))
    if x is not None:
        context.set_output_type(0, TypeProto(tensor_type=x))


class _Node:
    """The node under inference, and the failures that name it."""

    def __init__(self, op: Op, context: InferenceContext) -> None:
        self._op = op
        self._context = context

    def fail(self, text: str) -> NoReturn:
        raise DialectError(f"{DOMAIN}.{self._op.name} {self._context.get_display_name()}: {text}")

    def attribute_values(self) -> dict[str, Any]:
        return {attribute.name: self._attribute_value(attribute) for attribute in self._op.attributes}

    def _attribute_value(self, attribute: Attribute) -> Any:
        try:
            return value_of(attribute, self._context.get_attribute(attribute.name))
        except ValueError as error:
            self.fail(f"attribute {attribute.name} {error}.")

    def tensor(self, position: int) -> TypeProto.Tensor | None:
        """The type of an input, checked for element type and rank; None where it is not known."""
        operand = self._op.inputs[position]
        known = cast("TypeProto | None", self._context.get_input_type(position))  # onnx's annotation lacks the None
        if known is None:
            return None
        if not known.HasField("tensor_type"):
            self.fail(f"{operand.name} is no tensor.")
        tensor = known.tensor_type
        allowed = [TensorProto.DataType.Name(element_type) for element_type in TYPES[operand.type_variable]]
        if (name := _type_name(tensor)) not in (None, *allowed):
            self.fail(f"{operand.name} has element type {name}, expected one of {', '.join(allowed)}.")
        if (shape := _shape(tensor)) is not None and len(shape) not in self._op.ranks:
            self.fail(f"{operand.name} has rank {len(shape)}, expected one of {self._op.ranks}.")
        return tensor

    def require_same(self, what: str, one: str | None, other: str | None) -> None:
        if None not in (one, other) and one != other:
            self.fail(f"{what} differ: {one} and {other}.")

    def require_same_shape(self, what: str, one: Shape | None, other: Shape | None, axes: int | None = None) -> None:
        if one is None or other is None:
            return
        pairs = zip(one[:axes], other[:axes], strict=True) if len(one) == len(other) else None
        if pairs is None or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            self.fail(f"shapes of {what} differ: {_text(one)} and {_text(other)}.")


def _type_name(tensor: TypeProto.Tensor | None) -> str | None:
    if tensor is None or tensor.elem_type == TensorProto.UNDEFINED:
        return None
    return TensorProto.DataType.Name(tensor.elem_type)


def _shape(tensor: TypeProto.Tensor | None) -> Shape | None:
    if tensor is None or not tensor.HasField("shape"):
        return None
    return tuple(size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim)


def _text(shape: Shape) -> str:
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + ")"
