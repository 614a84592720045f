# SPDX-License-Identifier: Apache-2.0

"""Facts are proofs: what is not certain is unknown, and no question is too deep, too large or too odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering.model.ir.dims import Dim
from tests.pool_graphs import main_value, parse

ZEROS = [
    "z = Constant<value = float[2,2] {0, 0, 0, 0}>()",
    "z = Constant<value_float = 0.0>()",
    "z = Constant<value_ints = [0, 0]>()",
    "s = Constant<value_ints = [2, 3]>() z = ConstantOfShape(s)",
    "s = Shape(X) z = ConstantOfShape<value = int64[1] {0}>(s)",
    "s = Shape(X) c = Constant<value_float = 0.0>() z = Expand(c, s)",
    "c = Constant<value_float = 0.0>() z = Cast<to = 7>(c)",
    "c = Constant<value_float = 0.0>() z = CastLike(c, X)",
    "s = Shape(X) c = ConstantOfShape(s) t = Transpose(c) u = Relu(X) z = Identity(t)",
    "z = Constant<value = float[0] {}>()",
    "c = Constant<value_floats = [0.0, 0.0]>() r = Constant<value_ints = [3]>() z = Tile(c, r)",
    "c = Constant<value_floats = [0.0, 0.0]>() a = Constant<value_ints = [1]>() z = Slice(c, a, a)",
]
NOT_ZEROS = [
    "z = Identity(X)",
    "z = Constant<value_float = -0.0>()",
    "z = Constant<value = float[2] {0, 1}>()",
    "z = Constant<value_floats = [0.0, -0.0]>()",
    "s = Constant<value_ints = [2]>() z = ConstantOfShape<value = float[1] {1}>(s)",
    "s = Constant<value_ints = [2]>() z = ConstantOfShape<value = float[1] {-0.0}>(s)",
    "c = Constant<value_float = 0.0>() z = Neg(c)",
    "c = Constant<value_float = 0.0>() z = Exp(c)",
    "c = Constant<value_float = 0.0>() z = other.Identity(c)",
    'z = Constant<value = string[1] {""}>()',
    "z = Constant()",
    "z = other.Constant<value_float = 0.0>()",
    "z = Identity(nobody)",
    "z = Identity()",
    "s = Shape(X) z = ConstantOfShape<value = 0.0>(s)",
    "c = Constant<value_float = 0.0>() d = Cast<to = 24>(c) z = Cast<to = 1>(d)",
    "c = Constant<value_float = 0.0>() e = Cast<to = 24>(X) d = CastLike(c, e) z = CastLike(d, X)",
    "c = Constant<value_float = 0.0>() z = Add(c, c)",
]


def is_zero(model: ModelProto, name: str = "z") -> bool:
    facts, value = main_value(model, name)
    return facts.is_zero(value)


def with_initializer(tensor: TensorProto, *, overridable: bool = False) -> ModelProto:
    model = parse("g (float[2] X) => (Y) { Y = Relu(X) }")
    model.graph.initializer.append(tensor)
    if overridable:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, ["n"]))
    return model


@pytest.mark.parametrize("nodes", ZEROS)
def test_zeros(nodes: str) -> None:
    assert is_zero(parse(f"g (float[2,3] X) => (z) {{ {nodes} }}"))


@pytest.mark.parametrize("nodes", NOT_ZEROS)
def test_not_proven_to_be_zeros(nodes: str) -> None:
    assert not is_zero(parse(f"g (float[2,3] X) => (z) {{ {nodes} }}", imports='"other": 1'))


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4])
def test_zeros_of_types_that_numpy_lacks(kind: int) -> None:
    assert is_zero(with_initializer(onnx.helper.make_tensor("z", kind, [2], [0, 0])))
    assert not is_zero(with_initializer(TensorProto(name="z", data_type=24, dims=[2], raw_data=bytes(2))))
    assert not is_zero(with_initializer(onnx.helper.make_tensor("z", kind, [2], [0, 1])))


def test_external_data_is_not_read_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.bin").write_bytes(bytes(8))
    tensor = TensorProto(name="z", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for location in ("data.bin", "absent.bin", "../data.bin"):
        tensor.external_data.add(key="location", value=location)
        facts, value = main_value(with_initializer(tensor), "z")
        assert not facts.is_zero(value)
        assert facts.constant(value) is None
        assert facts.shape(value) == (Dim(2),)
        assert facts.element_type(value) == TensorProto.FLOAT
        del tensor.external_data[:]


MALFORMED: dict[str, dict[str, Any]] = {
    "too short": {"data_type": TensorProto.FLOAT, "dims": [3], "float_data": [0.0]},
    "no type": {"data_type": 0, "dims": [1], "float_data": [0.0]},
    "unknown type": {"data_type": 99, "dims": [1], "float_data": [0.0]},
    "negative size": {"data_type": TensorProto.FLOAT, "dims": [-1], "float_data": [1.0]},
    "no data": {"data_type": TensorProto.FLOAT, "dims": [1]},
    "text": {"data_type": TensorProto.STRING, "dims": [1], "string_data": [b"\xff"]},
    "ragged": {"data_type": TensorProto.FLOAT, "dims": [1], "raw_data": b"\1\1\1"},
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("as_constant", [True, False])
def test_malformed_tensors_are_unknown(fields: dict[str, Any], as_constant: bool) -> None:
    tensor = TensorProto(name="z", **fields)
    if as_constant:
        model = parse("g (float[2] X) => (Y) { Y = Relu(X) }")
        model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["z"], value=tensor))
    else:
        model = with_initializer(tensor)
    facts, value = main_value(model, "z")
    assert not facts.is_zero(value)
    assert facts.integers(value) is None
    shape = facts.shape(value)
    assert shape is None or all(dim.coefficient >= 0 for dim in shape)


@pytest.mark.parametrize("name", ["value_int", "value_ints", "value_float", "value_floats", "value"])
@pytest.mark.parametrize("kind", onnx.AttributeProto.AttributeType.values())
def test_constants_of_the_wrong_type(name: str, kind: int) -> None:
    model = parse("g () => (z) { z = Constant() }")
    model.graph.node[0].attribute.add(name=name, type=kind, s=b"0")
    facts, value = main_value(model, "z")
    facts.constant(value)
    facts.integers(value)
    assert facts.is_zero(value) in (True, False)


# -- depth and cycles


def chain(op: str, count: int) -> ModelProto:
    nodes = "".join(f"a{number + 1} = {op}(a{number}) " for number in range(count))
    return parse(f"g (float[2,3,5] a0) => (a{count}) {{ {nodes} }}")


@pytest.mark.parametrize("op", ["Relu", "Identity", "Cast<to = 1>", "Neg"])
def test_deep_chains_are_answered_without_deep_recursion(op: str) -> None:
    facts, value = main_value(chain(op, 10_000), "a10000")
    assert facts.element_type(value) == TensorProto.FLOAT
    shape = facts.shape(value)
    assert shape is not None
    assert [dim.static for dim in shape] == [2, 3, 5]
    assert not facts.is_zero(value)


def test_cycles_end() -> None:
    facts, value = main_value(parse("g () => (A) { A = Identity(B) B = Reshape(A, C) C = Shape(B) }"), "A")
    assert facts.shape(value) is None
    assert facts.integers(value) is None
    assert facts.element_type(value) is None
    assert not facts.is_zero(value)
