# SPDX-License-Identifier: Apache-2.0

"""Which tensors are constants of a model, and what is read of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from poolgrad_lowering.model.facts.stated import (
    all_bits_clear,
    small_array,
)
from poolgrad_lowering.model.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.model.ir.external import ModelFolder
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


def numbers(found: TensorProto | None) -> list[float] | None:
    return None if found is None else numpy_helper.to_array(found).tolist()


# -- values


def test_the_limit_of_a_constant() -> None:
    for size, is_read in ((1 << 16, True), ((1 << 16) + 1, False)):
        held = numpy_helper.from_array(np.zeros(size, np.uint8))
        assert (small_array(held, ExternalData()) is not None) == is_read


def external(location: str, size: int) -> TensorProto:
    held = TensorProto(name="t", data_type=TensorProto.UINT8, dims=[size], data_location=TensorProto.EXTERNAL)
    held.external_data.add(key="location", value=location)
    return held


@pytest.mark.parametrize("size", [3, 1 << 17])
def test_external_data(tmp_path: Path, size: int) -> None:
    """Zeros are read of a tensor of any size; the value only of a small one."""
    (tmp_path / "zeros.bin").write_bytes(bytes(size))
    (tmp_path / "others.bin").write_bytes(bytes(size - 1) + b"\1")
    data = ExternalData(ModelFolder(tmp_path))
    assert all_bits_clear(external("zeros.bin", size), data)
    assert not all_bits_clear(external("others.bin", size), data)
    found = small_array(external("others.bin", size), data)
    assert (found is not None) == (size == 3)
    if found is not None:
        assert found.tolist() == [0, 0, 1]


def test_external_data_that_cannot_be_read(tmp_path: Path) -> None:
    data = ExternalData(ModelFolder(tmp_path))
    with pytest.raises(UnreadableError, match=r"absent\.bin"):
        all_bits_clear(external("absent.bin", 3), data)
    with pytest.raises(UnreadableError, match=r"absent\.bin"):
        small_array(external("absent.bin", 3), data)
