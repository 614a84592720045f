# SPDX-License-Identifier: Apache-2.0

"""The records that define an op of the dialect: operands, types, ranks, attributes, inference and function bodies.

`ops` is the table of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from onnx import TensorProto
from onnx.shape_inference import InferenceContext


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


@dataclass(frozen=True)
class Operand:
    """An input or output; `type_variable` is a key of `TYPES`. `rank` is None where it is one of the op's ranks."""

    name: str
    type_variable: str
    doc: str
    rank: int | None = None


@dataclass(frozen=True)
class Attribute:
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


@dataclass(frozen=True)
class Body:
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


@dataclass(frozen=True)
class Op:
    """One op of the dialect.

    `ranks` are the ranks of its tensors, `index_type` the attribute with argmax's type. `infer` checks a node and sets
    the types and shapes of its outputs. `bodies` has the function body for each way in which y can be computed, at
    least for `Maximum.SELECTED`.
    """

    name: str
    doc: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    ranks: tuple[int, ...]
    infer: Callable[[Op, InferenceContext], None]
    bodies: Mapping[Maximum, Body]
    index_type: str | None = None

    @property
    def value(self) -> str:
        """The name of the first input with the type of x and grad."""
        return next(operand.name for operand in self.inputs if operand.type_variable == VALUE)

    @property
    def axes(self) -> int:
        """The number of entries of per-axis attributes: the spatial axes of the largest rank."""
        return max(self.ranks) - 2
