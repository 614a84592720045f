"""What an op of the dialect is: its operands, types, ranks and attributes, as records.

Data only; `ops` is the table of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from onnx import TensorProto

if TYPE_CHECKING:
    from collections.abc import Mapping

DOMAIN = "npu"
VERSION = 1

VALUE = "T"
INDEX = "I"

#: Element types (`TensorProto.DataType`) each type variable ranges over.
TYPES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        VALUE: (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16),
        INDEX: (TensorProto.INT32, TensorProto.INT64),
    }
)

#: Ascend's data type numbers (`DT_INT32`, `DT_INT64`) as `TensorProto.DataType`: what a `dtype` attribute names.
ASCEND_TYPES: Mapping[int, int] = MappingProxyType({3: TensorProto.INT32, 9: TensorProto.INT64})


@dataclass(frozen=True)
class Operand:
    """An input or output; `type_variable` is a key of `TYPES`."""

    name: str
    type_variable: str
    doc: str


@dataclass(frozen=True)
class Attribute:
    """An attribute and the values it may hold.

    `type` is an `AttributeProto.AttributeType`. `default` None means required. `length` (of a list), `minimum`
    (of every number) and `allowed` (whole values) are unbounded where None.
    """

    name: str
    type: int
    doc: str
    default: int | str | tuple[int, ...] | None = None
    length: int | None = None
    minimum: int | None = None
    allowed: tuple[int | str, ...] | None = None

    @property
    def required(self) -> bool:
        """Whether a node must carry the attribute (the rewriter writes all of them)."""
        return self.default is None


class Kind(Enum):
    """What an op computes; ops of one kind share shape inference and the text of their bodies."""

    GRADIENT = "gradient"
    POOL = "pool"
    ADAPTIVE_POOL = "adaptive pool"


@dataclass(frozen=True)
class Op:
    """One op of the dialect; `ranks` are those of its operands, `index_type` the attribute naming argmax's type."""

    name: str
    doc: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    ranks: tuple[int, ...]
    kind: Kind
    index_type: str | None = None

    @property
    def axes(self) -> int:
        """How many spatial axes the attributes name: those of the largest rank."""
        return max(self.ranks) - 2
