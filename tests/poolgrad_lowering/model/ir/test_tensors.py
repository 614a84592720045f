# SPDX-License-Identifier: Apache-2.0

"""Stored data is as long as onnx writes it for the element type and dims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor
from onnx import ModelProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw
from poolgrad_lowering.model.ir.external import Reference
from poolgrad_lowering.model.ir.tensors import (
    WITHOUT_TENSORS,
    dims_flaw,
    element_bytes,
    external_reference,
    tensor_flaw,
)

TEXT = TensorProto.STRING
NUMBERS = [kind for kind in TensorProto.DataType.values() if kind not in (TensorProto.UNDEFINED, TEXT)]
DIMS = [[], [0], [1], [5], [2, 3], [7, 0]]
FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def zeros(kind: int, dims: list[int]) -> TensorProto:
    """A tensor of zeros in raw_data, as onnx writes it."""
    return numpy_helper.from_array(np.zeros(dims, helper.tensor_dtype_to_np_dtype(kind)))


def other_data(what: str) -> Flaw:
    return Flaw(Fault.TENSOR_DATA, what)


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("kind", [*NUMBERS, TEXT], ids=TensorProto.DataType.Name)
def test_entries(kind: int, dims: list[int]) -> None:
    elements, some = math.prod(dims), b"" if kind == TEXT else 0
    field = helper.tensor_dtype_to_field(kind)
    tensor = helper.make_tensor("t", kind, dims, [some] * elements)
    entries = getattr(tensor, field)
    taken = len(entries)
    assert tensor_flaw(tensor) is None
    entries.append(some)
    assert tensor_flaw(tensor) == other_data(
        f"it has {taken + 1} entries of data, but {elements} elements take {taken}"
    )
    if taken:
        del entries[-2:]
        assert tensor_flaw(tensor) == other_data(
            f"it has {taken - 1} entries of data, but {elements} elements take {taken}"
        )
    del entries[:]
    for other in FIELDS:
        if other != field:
            getattr(tensor, other).append(b"" if other == "string_data" else 0)
            what = f"it has data in {other}, but its element type is stored in {field}"
            assert tensor_flaw(tensor) == other_data(what)
            entries.append(some)
            assert tensor_flaw(tensor) == other_data(what)
            tensor.ClearField(other)  # type: ignore[arg-type]
            del entries[:]


@pytest.mark.parametrize("kind", [TensorProto.UNDEFINED, 99, -1])
def test_no_element_type(kind: int) -> None:
    tensor = TensorProto(data_type=kind, dims=[-1])
    what = f"its element type is {kind}, which ONNX does not define"
    assert tensor_flaw(tensor) == Flaw(Fault.TENSOR_TYPE, what)


@pytest.mark.parametrize("dims", [[], [0], [0, 2**62, 2**62, 0], [2**63 - 1], [2**31, 2**31], [2**62, 0, 1]])
def test_dims(dims: list[int]) -> None:
    fits = math.prod(size for size in dims if size) < 2**63
    flaw = None if fits else Flaw(Fault.TENSOR_DIMS, "its sizes multiply to more than 2^63 − 1 elements")
    assert dims_flaw(dims) == flaw


@pytest.mark.parametrize("dims", [[-1], [2, -3], [-5, 0], [2**62, 4, -7]])
def test_negative_dims(dims: list[int]) -> None:
    flaw = Flaw(Fault.TENSOR_DIMS, f"its size {min(dims)} is negative")
    assert dims_flaw(dims) == flaw
    assert tensor_flaw(TensorProto(data_type=TensorProto.FLOAT, dims=dims)) == flaw


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"float_data": [0.0, 0.0], "raw_data": b""}, "it has data in raw_data and in float_data"),
        ({"float_data": [0.0, 0.0], "raw_data": bytes(8)}, "it has data in raw_data and in float_data"),
        ({"int64_data": [0], "raw_data": bytes(8)}, "it has data in raw_data and in int64_data"),
        ({"raw_data": b""}, "it has 0 bytes of data, but 2 elements take 8"),
        ({}, "it has 0 entries of data, but 2 elements take 2"),
        ({"int64_data": [0]}, "it has data in int64_data, but its element type is stored in float_data"),
    ],
)
def test_data_in_two_places(fields: dict[str, bytes | list[float]], what: str) -> None:
    """onnxruntime loads no tensor with an empty `raw_data` beside its data."""
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2], **fields)  # type: ignore[arg-type]
    assert tensor_flaw(tensor) == other_data(what)


@pytest.mark.parametrize(
    ("dims", "raw", "what"),
    [
        ([2], b"ab", "it holds text, which must not be in raw_data"),
        ([0], b"a", "it holds text, which must not be in raw_data"),
        ([2], b"", "it has 0 bytes of data, but 2 elements take 0"),
        ([0], b"", None),
    ],
)
def test_text_is_not_raw_data(dims: list[int], raw: bytes, what: str | None) -> None:
    tensor = TensorProto(data_type=TEXT, dims=dims, raw_data=raw)
    assert tensor_flaw(tensor) == (None if what is None else other_data(what))


def external(kind: int = TensorProto.FLOAT, **fields: object) -> TensorProto:
    tensor = TensorProto(data_type=kind, dims=[3], data_location=TensorProto.EXTERNAL, **fields)  # type: ignore[arg-type]
    tensor.external_data.add(key="location", value="w")
    tensor.external_data.add(key="offset", value="16")
    return tensor


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (TensorProto.FLOAT, {"float_data": [0.0]}),
        (TensorProto.FLOAT, {"raw_data": bytes(12)}),
        (TEXT, {}),
    ],
)
def test_data_both_in_and_out_of_the_model(kind: int, fields: dict[str, object]) -> None:
    what = "its data is external, but it also has data in the model or holds text"
    assert tensor_flaw(external(kind, **fields)) == other_data(what)


@pytest.mark.parametrize("kind", NUMBERS, ids=TensorProto.DataType.Name)
def test_external_data(kind: int) -> None:
    tensor, size = external(kind), len(zeros(kind, [3]).raw_data)
    assert tensor_flaw(tensor) is None
    assert external_reference(tensor) == Reference("w", 16, size)
    tensor.raw_data = b""
    assert tensor_flaw(tensor) is None
    length = tensor.external_data.add(key="length", value=str(size))
    assert tensor_flaw(tensor) is None
    length.value = str(size + 1)
    what = f"its external data is {size + 1} bytes long, but its elements take {size}"
    assert tensor_flaw(tensor) == Flaw(Fault.EXTERNAL_EXTENT, what)


def test_no_tensor_is_in_the_messages_that_the_search_for_external_ones_passes_over() -> None:
    def held(message: Descriptor, seen: set[str]) -> set[str]:
        for field in message.fields:
            if field.message_type is not None and field.message_type.name not in seen:
                seen |= held(field.message_type, seen | {field.message_type.name})
        return seen

    own = ModelProto.DESCRIPTOR.file.message_types_by_name
    assert {name for name in WITHOUT_TENSORS if "TensorProto" in held(own[name], set())} == set()
    assert "TensorProto" in held(ModelProto.DESCRIPTOR, set())


def test_elements_of_every_type_have_a_width() -> None:
    """numpy knows them; texts and elements that share a byte have none."""
    found = {name: element_bytes(number) for name, number in TensorProto.DataType.items()}
    assert found["FLOAT"] == found["INT32"] == 4
    assert found["FLOAT16"] == found["BFLOAT16"] == 2
    assert found["BOOL"] == found["FLOAT8E4M3FN"] == 1
    assert {name for name, width in found.items() if width is None} >= {"STRING", "UNDEFINED", "INT4", "UINT4"}
    assert element_bytes(99) is None
