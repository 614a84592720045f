# SPDX-License-Identifier: Apache-2.0

"""Which tensors are constants of a model, and what is read of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from poolgrad_lowering.model.facts.stated import (
    all_bits_clear,
    bits_clear,
    default_tensor,
    small_array,
    stored_tensor,
)
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.pool_graphs import parse

MODEL = """g (float[2] X, bool B) => (Y, U, V, W, idle) {
    C = Constant<value = float[2] {3, 4}>()
    N = Constant<value_float = 1.0>()
    O = other.Constant<value = float[2] {5, 6}>()
    P = ConstantOfShape<value = float[1] {7}>(S)
    F = own.Fill(X)
    Y = If(B) <
        then_branch = then () => (Z) { D = Constant<value = float[2] {8, 9}>() Z = Add(D, inner) },
        else_branch = else () => (A) { A = Relu(X) }
    >
    U = Relu(O)
    V = Relu(F)
    W = Relu(P)
}"""
FUNCTION = (
    '<domain: "own", opset_import: ["" : 18]> Fill (I) => (E) { G = Constant<value = float[2] {1, 2}>() E = Add(I, G) }'
)


def tensor(name: str, *numbers: float) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.float32), name)


def model() -> ModelProto:
    made = parse(MODEL, opset=18, imports='"other": 1, "own": 1', functions=FUNCTION)
    made.graph.initializer.extend([tensor("S", 2), tensor("X", 1, 2), tensor("idle", 3, 4)])
    branch = next(node for node in made.graph.node if node.op_type == "If").attribute[0].g
    branch.initializer.append(tensor("inner", 5, 6))
    return made


def values() -> dict[str, Value]:
    """All values of the model, by name."""
    found: dict[str, Value] = {}
    for scope in ModelIndex(model()).scopes:
        names = [*scope.inputs, *(name for node in scope.proto.node for name in node.output)]
        names += [held.name for held in getattr(scope.proto, "initializer", ())]
        found |= {name: Value(scope, name) for name in names}
    return found


def numbers(found: TensorProto | None) -> list[float] | None:
    return None if found is None else numpy_helper.to_array(found).tolist()


def test_stored_tensors() -> None:
    found = {name: numbers(stored_tensor(value)) for name, value in values().items()}
    expected = {"C": [3, 4], "D": [8, 9], "G": [1, 2], "N": 1.0, "S": [2], "inner": [5, 6], "idle": [3, 4]}
    assert {name: held for name, held in found.items() if held is not None} == expected


def test_defaults() -> None:
    found = {name: numbers(default_tensor(value)) for name, value in values().items()}
    assert {name: held for name, held in found.items() if held is not None} == {"X": [1, 2]}


# -- values


def test_the_limit_of_a_constant() -> None:
    for size, is_read in ((1 << 16, True), ((1 << 16) + 1, False)):
        held = numpy_helper.from_array(np.zeros(size, np.uint8))
        assert (small_array(held, ExternalData()) is not None) == is_read


TYPED: dict[str, dict[str, Any]] = {
    "float": {"data_type": TensorProto.FLOAT, "float_data": [0.0, 0.0]},
    "int64": {"data_type": TensorProto.INT64, "int64_data": [0, 0]},
    "raw": {"data_type": TensorProto.FLOAT, "raw_data": bytes(8)},
}
NOT_CLEAR: dict[str, dict[str, Any]] = {
    "another number": {"data_type": TensorProto.FLOAT, "float_data": [0.0, 1.0]},
    "minus zero": {"data_type": TensorProto.FLOAT, "float_data": [-0.0, 0.0]},
    "a raw number": {"data_type": TensorProto.FLOAT, "raw_data": bytes(7) + b"\x80"},
    "text": {"data_type": TensorProto.STRING, "string_data": [b"", b""]},
    "too few": {"data_type": TensorProto.FLOAT, "float_data": [0.0]},
    "no type": {"float_data": [0.0, 0.0]},
    "a type that nobody knows": {"data_type": 99, "float_data": [0.0, 0.0]},
}


@pytest.mark.parametrize("fields", TYPED.values(), ids=TYPED)
def test_zeros(fields: dict[str, Any]) -> None:
    assert all_bits_clear(TensorProto(dims=[2], **fields), ExternalData())


@pytest.mark.parametrize("fields", NOT_CLEAR.values(), ids=NOT_CLEAR)
def test_no_zeros(fields: dict[str, Any]) -> None:
    assert not all_bits_clear(TensorProto(dims=[2], **fields), ExternalData())


def test_bits_of_arrays() -> None:
    assert bits_clear(np.zeros((2, 3)))
    assert bits_clear(np.array(0.0))
    assert bits_clear(np.zeros(0))
    assert bits_clear(np.array(False))
    for other in (np.array(-0.0), np.array([0, 1]), np.array([np.nan]), np.array(["", ""], object)):
        assert not bits_clear(other)
