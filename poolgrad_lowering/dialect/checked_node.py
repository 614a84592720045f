# SPDX-License-Identifier: Apache-2.0

"""The node during shape inference: its attributes and operands, checked against the table of ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from onnx import TensorProto, TypeProto
from onnx.shape_inference import InferenceContext, InferenceError

from poolgrad_lowering.dialect.attributes import value_of
from poolgrad_lowering.dialect.op import ASCEND_TYPES, DOMAIN, TYPES, Attribute, Op
from poolgrad_lowering.model.diagnostics.errors import PoolgradError

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
