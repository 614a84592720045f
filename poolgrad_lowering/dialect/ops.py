"""The table of the dialect: the ops of domain `npu`, their operands, types, ranks and attributes.

Data only. Schemas, function bodies, the rewriter and the documentation read it; it knows none of them.
Names, order and types are those of Ascend's operator definitions (CANN documentation of the `aclnn` pooling operators).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from onnx import AttributeProto, TensorProto

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


@dataclass(frozen=True)
class Op:
    """One op of the dialect; `ranks` are those of its operands, `index_type` the attribute naming argmax's type."""

    name: str
    doc: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    ranks: tuple[int, ...]
    index_type: str | None = None


_X = Operand("x", VALUE, "The pooled input, (N, C, spatial axes); only its shape and type matter.")
_GRAD = Operand("grad", VALUE, "The gradient of the pooled output, (N, C, spatial axes).")
_ARGMAX = Operand(
    "argmax",
    INDEX,
    "For each element of grad, the row-major position of its maximum inside one (n, c) plane of the unpadded x; "
    "grad's shape, values in [0, plane).",
)
_Y = Operand("y", VALUE, "The gradient of x, in x's shape and type.")

_SCATTER = (
    "y is zero, then for every output position o in row-major order y[n, c].flat[argmax[n, c, o]] += grad[n, c, o], "
    "accumulated in float32 and cast once at the end."
)


def _window(axes: str) -> tuple[Attribute, ...]:
    """The window of a pool over `axes` ("DHW" or "HW"): ksize, strides, pads and dilation."""
    count = len(axes)

    def each(name: str, doc: str, minimum: int, default: tuple[int, ...] | None = None) -> Attribute:
        text = f"{doc} along {', '.join(axes)}."
        return Attribute(name, AttributeProto.INTS, text, default, count, minimum)

    return (
        each("ksize", "Window size", 1),
        each("strides", "Window step", 1),
        each("pads", "Padding at either end", 0),
        each("dilation", "Spacing of the window's elements", 1, (1,) * count),
    )


def _layout(name: str) -> tuple[Attribute, ...]:
    """Output rounding and the layout of the tensors, of which the dialect has one."""
    return (
        Attribute(
            "ceil_mode",
            AttributeProto.INT,
            "1 if the pooled size was rounded up, 0 if down.",
            default=0,
            allowed=(0, 1),
        ),
        Attribute(
            "data_format",
            AttributeProto.STRING,
            "Layout of the tensors.",
            default=name,
            allowed=(name,),
        ),
    )


_DTYPE = Attribute(
    "dtype",
    AttributeProto.INT,
    "Ascend's number of argmax's type: 3 is int32, 9 is int64.",
    default=3,
    allowed=tuple(ASCEND_TYPES),
)

_OPS = (
    Op(
        "MaxPool3DGradWithArgmax",
        f"Gradient of a max pool over up to three spatial axes: {_SCATTER} Attributes always name D, H and W; leading "
        "spatial axes that x lacks have size 1.",
        inputs=(_X, _GRAD, _ARGMAX),
        outputs=(_Y,),
        attributes=(*_window("DHW"), *_layout("NCDHW")),
        ranks=(3, 4, 5),
    ),
    Op(
        "MaxPoolGradWithArgmaxV3",
        f"Gradient of a max pool over two spatial axes: {_SCATTER}",
        inputs=(_X, _GRAD, _ARGMAX),
        outputs=(_Y,),
        attributes=(*_window("HW"), _DTYPE, *_layout("NCHW")),
        ranks=(4,),
        index_type="dtype",
    ),
    Op(
        "AdaptiveMaxPool3DGrad",
        f"Gradient of an adaptive max pool over up to three spatial axes: {_SCATTER}",
        inputs=(_X, _GRAD, _ARGMAX),
        outputs=(_Y,),
        attributes=(),
        ranks=(3, 4, 5),
    ),
)

OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in _OPS})
