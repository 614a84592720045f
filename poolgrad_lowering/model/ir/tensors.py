# SPDX-License-Identifier: Apache-2.0

"""Stored tensors: those of constants, their element types in texts, and validation. Knows nothing of where one is.

The data of a valid tensor matches its dims and its element type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw
from poolgrad_lowering.model.ir.external import Reference, external_flaw


class _Storage(NamedTuple):
    """The storage of an element type: `bits` per element in `raw_data`, or `entries` of a typed `field` for every
    `elements` elements."""

    bits: int
    field: str
    entries: int = 1
    elements: int = 1


_NARROW = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "STRING": 0}
"""The bits of element types that have less than a byte, or no place in `raw_data`."""


def _storage(name: str, number: int) -> _Storage:
    """Return how an element type is stored, by the comments of onnx.proto at `raw_data` and at each typed field."""
    bits = _NARROW.get(name, 8 * helper.tensor_dtype_to_np_dtype(number).itemsize)
    elements = 8 // bits if bits in (2, 4) else 1
    return _Storage(bits, helper.tensor_dtype_to_field(number), 1 + name.startswith("COMPLEX"), elements)


_BY_NUMBER = {number: _storage(name, number) for name, number in TensorProto.DataType.items() if number}
_TYPED_FIELDS = sorted({storage.field for storage in _BY_NUMBER.values()})
_TYPED_DATA = attrgetter(*_TYPED_FIELDS)
WITHOUT_TENSORS = ("OperatorSetIdProto", "StringStringEntryProto", "TypeProto", "ValueInfoProto")
"""The messages of ONNX's format, frequent ones, in which no tensor can be."""
_MOST_ELEMENTS = 2**63 - 1
_TEXTS = {number: name.lower() for name, number in TensorProto.DataType.items()} | {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.UNDEFINED: "of unknown type",
}


def type_name(element_type: int | None) -> str:
    """The element type (`TensorProto.DataType`) as text for messages: "float32"."""
    return _TEXTS.get(element_type or TensorProto.UNDEFINED) or f"of type number {element_type}"


def element_bytes(element_type: int | None) -> int | None:
    """The bytes of an element; None for text, for unknown types, and where elements share a byte."""
    storage = _BY_NUMBER.get(element_type or TensorProto.UNDEFINED)
    return None if storage is None or not storage.bits or storage.bits % 8 else storage.bits // 8


def tensor_flaw(tensor: TensorProto) -> Flaw | None:
    """The flaw of a stored tensor, or None. Copies its raw data once to measure it; opens no external data."""
    if (storage := _BY_NUMBER.get(tensor.data_type)) is None:
        return Flaw(Fault.TENSOR_TYPE, f"its element type is {tensor.data_type}, which ONNX does not define")
    dims = tensor.dims[:]
    if (flaw := dims_flaw(dims)) is not None:
        return flaw
    elements = math.prod(dims)
    filled = list(compress(_TYPED_FIELDS, _TYPED_DATA(tensor)))
    raw = len(tensor.raw_data) if tensor.HasField("raw_data") else None
    if tensor.data_location == TensorProto.EXTERNAL:
        if filled or raw or not storage.bits:
            return Flaw(Fault.TENSOR_DATA, "its data is external, but it also has data in the model or holds text")
        return external_flaw(tensor.external_data, _bytes(storage, elements))
    if raw is not None:
        if filled:
            return Flaw(Fault.TENSOR_DATA, f"it has data in raw_data and in {filled[0]}")
        return _raw_flaw(storage, elements, raw)
    return _typed_flaw(tensor, storage, elements, filled)


_NUMBERS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
"""The attributes of Constant with numbers in place of a tensor, and the element type that they give."""
_OF_NUMBERS = (AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.FLOATS)


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """Return the tensor of a Constant node; None for another one, strings, sparse tensors, and a wrong attribute."""
    for attribute in node.attribute if node.op_type == "Constant" else ():
        if attribute.name == "value" and attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
            return attribute.t
        if attribute.name in _NUMBERS and attribute.type in _OF_NUMBERS and not attribute.ref_attr_name:
            return numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), _NUMBERS[attribute.name]))
    return None


def external_reference(tensor: TensorProto) -> Reference:
    """The reference of an external tensor. Requires that `tensor_flaw` returned None."""
    values = {entry.key: entry.value for entry in tensor.external_data}
    size = _bytes(_BY_NUMBER[tensor.data_type], math.prod(tensor.dims))
    return Reference(values["location"], int(values.get("offset", 0)), size)


def external_tensors(message: Message) -> Iterator[TensorProto]:
    """The external tensors in an ONNX message, at any depth: initializers, attributes, sparse tensors."""
    if isinstance(message, TensorProto):
        if message.data_location == TensorProto.EXTERNAL:
            yield message
        return
    for field, held in message.ListFields():
        kind = field.message_type
        if kind is not None and kind.name not in WITHOUT_TENSORS:
            for inner in (held,) if isinstance(held, Message) else held:
                yield from external_tensors(inner)


def dims_flaw(dims: Sequence[int]) -> Flaw | None:
    """The flaw of the dims of a stored tensor, or None."""
    if min(dims, default=0) < 0:
        return Flaw(Fault.TENSOR_DIMS, f"its size {min(dims)} is negative")
    if math.prod(filter(None, dims)) > _MOST_ELEMENTS:
        return Flaw(Fault.TENSOR_DIMS, "its sizes multiply to more than 2^63 − 1 elements")
    return None


def _bytes(storage: _Storage, elements: int) -> int:
    return -(-elements * storage.bits // 8)


def _raw_flaw(storage: _Storage, elements: int, raw: int) -> Flaw | None:
    if not storage.bits and raw:
        return Flaw(Fault.TENSOR_DATA, "it holds text, which must not be in raw_data")
    if raw != _bytes(storage, elements) or (elements and not raw):
        return Flaw(
            Fault.TENSOR_DATA, f"it has {raw} bytes of data, but {elements} elements take {_bytes(storage, elements)}"
        )
    return None


def _typed_flaw(tensor: TensorProto, storage: _Storage, elements: int, filled: Sequence[str]) -> Flaw | None:
    if other := [name for name in filled if name != storage.field]:
        return Flaw(Fault.TENSOR_DATA, f"it has data in {other[0]}, but its element type is stored in {storage.field}")
    wanted = -(-elements * storage.entries // storage.elements)
    if (stored := len(getattr(tensor, storage.field))) != wanted:
        return Flaw(Fault.TENSOR_DATA, f"it has {stored} entries of data, but {elements} elements take {wanted}")
    return None
