# SPDX-License-Identifier: Apache-2.0

"""The records that define an op of the dialect: operands, types, ranks, attributes, inference, function bodies, and
what runs it in CANN.

`ops` is the table of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import AttributeProto, TensorProto, helper
from onnx.shape_inference import InferenceContext

from poolgrad_lowering.dialect.aclnn_functions import Function


class Maximum(Enum):
    """How a body computes y. The bodies differ for windows with zeros of both signs or NaN alone.

    ONNX does not say which zero ReduceMax returns for +0.0 and −0.0, nor what ReduceMax and ArgMax do with NaN. In a
    runtime both depend on how the elements of a window lie in memory, so there is a body for each arrangement. And
    onnxruntime's Where makes +0.0 of −0.0, so a body has one only where the graph had one.
    """

    SELECTED = "selected"  # the element at argmax: the first maximum, or the last NaN as on Ascend
    WHOLE = "whole"  # ReduceMax over whole axes of x as it lies; every axis is pooled to one element or not at all
    GATHERED = "gathered"  # ReduceMax over rows: the elements of a window, the last one repeated
    FILLED = "filled"  # the same, with Where and −inf for elements that a window has fewer than the longest one


DOMAIN = "npu"
VERSION = 1

VALUE = "T"
INDEX = "I"
SHAPE = "S"

#: The element types (`TensorProto.DataType`) that each type variable allows.
TYPES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        VALUE: (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16),
        INDEX: (TensorProto.INT32, TensorProto.INT64),
        SHAPE: (TensorProto.INT32,),
    }
)

#: `TensorProto.DataType` by Ascend's data type number (`DT_INT32`, `DT_INT64`), the value of a `dtype` attribute.
ASCEND_TYPES: Mapping[int, int] = MappingProxyType({3: TensorProto.INT32, 9: TensorProto.INT64})


class Part(Enum):
    """What an input or output is to a pool or to its gradient."""

    X = "x"  # the pooled input
    GRAD = "grad"  # the gradient of the pooled output
    ARGMAX = "argmax"  # the positions of the maxima
    SIZES = "sizes"  # the shape of x
    Y = "y"  # the pooled output, or the gradient of x


class Operand(NamedTuple):
    """An input or output."""

    name: str
    part: Part
    doc: str

    @property
    def type_variable(self) -> str:
        """The key of `TYPES` with its element types."""
        return {Part.ARGMAX: INDEX, Part.SIZES: SHAPE}.get(self.part, VALUE)

    @property
    def rank(self) -> int | None:
        """Its rank; None where it is one of the op's ranks."""
        return 1 if self.part is Part.SIZES else None


class Attribute(NamedTuple):
    """An attribute and its allowed values.

    `type` is an `AttributeProto.AttributeType`. An attribute whose `default` is None is required. `length` (of a list),
    `minimum` (of every number) and `allowed` (values) do not restrict if None.
    """

    name: str
    type: int
    doc: str
    default: int | float | str | tuple[int, ...] | None = None
    length: int | None = None
    minimum: int | None = None
    allowed: tuple[int | str, ...] | None = None

    @property
    def required(self) -> bool:
        """Whether a node must have the attribute (the rewrite writes all attributes)."""
        return self.default is None

    @property
    def of_body(self) -> bool:
        """Whether only the function body reads the attribute: Ascend's operator does not have it."""
        return self.name.startswith("onnx_")


class Prototype(NamedTuple):
    """An operator in GE: the rank of its tensors in a graph, the first CANN release that has it, and their format.

    `layout` is NCHW, NCDHW, or ND if the attribute data_format alone says what the axes are. `chips` are those on which
    a graph takes channels first; None if all do that have the operator. `outputs` are its own names; None if they are
    the op's.
    """

    rank: int
    since: str
    layout: str
    chips: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None


class Body(NamedTuple):
    """How a function body is written: `text(opset, index_type, narrow)` returns its nodes as ONNX text.

    `index_type` (`TensorProto.DataType`) is the type of argmax; `narrow` is the node that converts float32 to the type
    of x and grad, with `{}` for its operand, None if no type needs it. The operators compute in the element types
    `computed`; other types are converted to float32. `oldest` and `oldest_bfloat16` are the first opsets, in general
    and for x in bfloat16. `marker` is a value of a gradient's body by which one that was inlined is recognised.
    """

    text: Callable[[int, int, str | None], str]
    oldest: int
    computed: frozenset[int] = frozenset((TensorProto.FLOAT,))
    oldest_bfloat16: int = 13
    marker: str = ""


class Op(NamedTuple):
    """One op of the dialect.

    `infer` checks a node and sets the types and shapes of its outputs. `bodies` has the function body for each way in
    which y can be computed, at least for `Maximum.SELECTED`. `functions` are those of aclnn that run the op, by the
    rank of x, the preferred one first; the others run what it does not take on a product. `prototype` is the operator
    of this name in GE, None if CANN has none. `index_type` is the attribute with argmax's type.
    """

    name: str
    doc: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    functions: Mapping[int, tuple[Function, ...]]
    infer: Callable[[Op, InferenceContext], None]
    bodies: Mapping[Maximum, Body]
    prototype: Prototype | None
    index_type: str | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of its tensors."""
        return tuple(sorted(self.functions))

    @property
    def axes(self) -> int:
        """The number of entries of per-axis attributes: the spatial axes of the largest rank."""
        return max(self.ranks) - 2

    @property
    def is_gradient(self) -> bool:
        """Whether it is the gradient of a pool; else it is a pool."""
        return self.position(Part.GRAD) is not None

    @property
    def has_argmax(self) -> bool:
        """Whether it is a max pool or the gradient of one; else it is the gradient of an average pool."""
        return any(operand.part is Part.ARGMAX for operand in (*self.inputs, *self.outputs))

    @property
    def is_adaptive(self) -> bool:
        """Whether the sizes of x and of the result say what the windows are."""
        return self.attribute("ksize") is None

    @property
    def data_format(self) -> str | None:
        """The layout of its tensors that the attribute data_format says; None without the attribute."""
        attribute = self.attribute("data_format")
        return None if attribute is None else str(attribute.default)

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of this name, None if there is none."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)

    def position(self, part: Part) -> int | None:
        """Return the position of the input that is this part, None if there is none."""
        return next((number for number, operand in enumerate(self.inputs) if operand.part is part), None)


def default_proto(attribute: Attribute) -> AttributeProto:
    """Return the default of an attribute that has one."""
    return helper.make_attribute(attribute.name, attribute.default)


def value_of(attribute: Attribute, proto: AttributeProto | None) -> Any:
    """Return the value of `proto`, or the default if it is None: int, float, str or a tuple of ints.

    Raises `ValueError` if the value breaks the rules of `attribute`; the message says what is expected.
    """
    if proto is None:
        if attribute.required:
            raise ValueError("is missing")
        return attribute.default
    if proto.type != attribute.type:
        raise ValueError(f"has type {_type_name(proto.type)}, expected {_type_name(attribute.type)}")
    value = helper.get_attribute_value(proto)
    if not isinstance(value, int | float | str):
        value = value.decode(errors="replace") if isinstance(value, bytes) else tuple(value)
    numbers = value if isinstance(value, tuple) else (value,)
    if attribute.length is not None and len(numbers) != attribute.length:
        raise ValueError(f"is {value}, expected {attribute.length} values")
    if attribute.minimum is not None and min(numbers) < attribute.minimum:
        raise ValueError(f"is {value}, expected at least {attribute.minimum}")
    if attribute.allowed is not None and value not in attribute.allowed:
        raise ValueError(f"is {value!r}, expected one of {attribute.allowed}")
    return value


def _type_name(attribute_type: int) -> str:
    return str(AttributeProto.AttributeType.Name(attribute_type))
