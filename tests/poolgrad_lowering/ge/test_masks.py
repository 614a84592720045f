# SPDX-License-Identifier: Apache-2.0

"""A triangle of a matrix and a Dropout in training are masks: graph mode does not take the one, GE the other."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.ge.rewrites import write_for_ge
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators, run

TRIANGLE = "g (float[2,5,3] X) => (Y) <int64 k = {K}> { N = Neg(X) Z = TYPE(N) Y = Trilu<upper = UPPER>(Z, k) }"


@pytest.mark.parametrize("diagonal", [-(2**63), -5, -4, -1, 0, 1, 3, 2**63 - 1])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize(
    ("typed", "writes"), [("Identity", "Where"), ("Cast<to = 7>", "Where"), ("Cast<to = 9>", "And")]
)
def test_a_triangle_is_a_mask_in_graph_mode(typed: str, writes: str, upper: int, diagonal: int) -> None:
    model = parse(TRIANGLE.replace("K", str(diagonal)).replace("TYPE", typed).replace("UPPER", str(upper)))
    export = export_cann(model)
    assert operators(export.model)[-1] == writes
    values = np.arange(30).reshape(2, 5, 3) - 11
    column, row = np.arange(3), np.arange(5)[:, None]
    kept = column - row >= diagonal if upper else column - row <= diagonal
    [found] = run(export.model, {"X": values.astype(np.float32)})
    typed_values = {"Identity": np.float32(-values), "Cast<to = 7>": -values, "Cast<to = 9>": values != 0}[typed]
    assert_same_bits(found, np.where(kept, typed_values, np.zeros_like(typed_values)))
    assert verify(model, export.model).differences == ()
    assert operators(export_atc(model).model)[-1] == "Trilu"


SYMBOLIC_TRIANGLES = {
    "rows": "g (float[N,4] X) => (Y) { Z = TYPE(X) Y = Trilu<upper = UPPER>(Z, k) }",
    "columns of several matrices": (
        "g (float[N,3,M] X) => (Y) { U = Cast<to = 1>(X) Z = TYPE(U) Y = Trilu<upper = UPPER>(Z, k) }"),
    "a mask of a length": (
        "g (float[3,T] X) => (Y) { T = Shape<start = 1>(X) S = Concat<axis = 0>(T, T)"
        " M = ConstantOfShape<value = float[1] {-2.5}>(S) Z = TYPE(M) Y = Trilu<upper = UPPER>(Z, k) }"),
    "sizes without a name, of two values": (
        "g (float[N,6] X) => (V, Y) { P = NonZero(X) Q = Concat<axis = 1>(P, P) Z = TYPE(P) W = TYPE(Q)"
        " V = Trilu<upper = UPPER>(W, k) Y = Trilu<upper = UPPER>(Z, k) }"),
    "sizes without a name": "g (float[N,6] X) => (Y) { P = NonZero(X) Z = TYPE(P) Y = Trilu<upper = UPPER>(Z, k) }",
}  # fmt: skip


@pytest.mark.parametrize("diagonal", [-(2**63), -1, 0, 2, 2**63 - 1])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize(
    ("typed", "writes"), [("Identity", "Where"), ("Cast<to = 7>", "Where"), ("Cast<to = 9>", "And")]
)
@pytest.mark.parametrize("name", SYMBOLIC_TRIANGLES)
def test_a_triangle_of_any_size_compares_places(name: str, typed: str, writes: str, upper: int, diagonal: int) -> None:
    text = SYMBOLIC_TRIANGLES[name].replace("Y) {", f"Y) <int64 k = {{{diagonal}}}> {{")
    model = parse(text.replace("TYPE", typed).replace("UPPER", str(upper)))
    export = export_cann(model)
    is_known = not (name.startswith("sizes without a name") and writes == "And")
    assert operators(export.model)[-1] == (writes if is_known else "Trilu")
    shapes: dict[str, list[tuple[int, ...]]]
    shapes = {"X": [(2, 4), (5, 4)], "[3,T]": [(3, 1), (3, 5)], "[N,3,M]": [(2, 3, 1), (1, 3, 4)]}
    for shape in next((sizes for key, sizes in reversed(shapes.items()) if key in text), []):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        if name.startswith("sizes without a name"):
            x = np.pad(x, [(0, 0), (0, 2)])
        for found, expected in zip(run(export.model, {"X": x}), run(model, {"X": x}), strict=True):
            assert_same_bits(found, expected)
    assert verify(model, export.model).differences == ()


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4,4] X) => (Y) { Z = Cast<to = 2>(X) Y = Trilu(Z) }",
        "g (float[4,4] X, int64 k) => (Y) { Z = Neg(X) Y = Trilu(Z, k) }",
        "g (float[4,4] X) => (Y) <int64[0] k = {}> { Z = Neg(X) Y = Trilu(Z, k) }",
        "g (float[N,6] X) => (Y) { P = NonZero(X) Z = Cast<to = 9>(P) Y = Trilu(Z) }",
    ],
)
def test_a_triangle_of_unknown_size_or_of_a_type_without_a_choice_stays(text: str) -> None:
    model = parse(text)
    export = export_cann(model)
    assert operators(export.model)[-1] == "Trilu"
    assert verify(model, export.model).differences == ()


def test_a_triangle_of_a_vector_is_left_to_onnxruntime_which_refuses_it() -> None:
    assert operators(export_cann(parse("g (float[4] X) => (Y) { Z = Neg(X) Y = Trilu(Z) }")).model) == ["Neg", "Trilu"]


def test_a_triangle_that_is_too_large_for_a_mask_stays() -> None:
    masks = {size: parse(f"g (float[{size},4096] X) => (Y) {{ Z = Neg(X) Y = Trilu(Z) }}") for size in (4096, 4097)}
    written = {size: operators(export_cann(model).model)[-1] for size, model in masks.items()}
    assert written == {4096: "Where", 4097: "Trilu"}


def test_a_triangle_of_a_symbolic_batch_is_a_mask() -> None:
    model = parse("g (float[N,3,4] X) => (Y) { Z = Neg(X) Y = Trilu(Z) }")
    export = export_cann(model)
    assert operators(export.model) == ["Neg", "Where"]
    assert verify(model, export.model).differences == ()


def test_verify_sees_another_triangle() -> None:
    export = export_cann(parse(TRIANGLE.replace("K", "0").replace("TYPE", "Identity").replace("UPPER", "1")))
    other = parse(TRIANGLE.replace("K", "1").replace("TYPE", "Identity").replace("UPPER", "1"))
    assert not verify(other, export.model).proven


DROPOUT = "g (KIND[N,4096] X) => (Y, M) <float R = {RATIO}, bool T = {1}> { Z = Neg(X) Y, M = Dropout(Z, READ, T) }"


NO_MASK = parse("g (float[64] X) => (Y) <float R = {0.75}, bool T = {1}> { Y = Dropout(X, R, T) }")


@pytest.mark.parametrize("opset", [12, 13, 18])
@pytest.mark.parametrize(("ratio", "read"), [(0.25, "R"), (0.0, "R"), (0.5, "")])
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_a_dropout_in_training_draws_its_mask(kind: str, ratio: float, read: str, opset: int) -> None:
    text = DROPOUT.replace("KIND", kind).replace("RATIO", str(ratio)).replace("READ", read)
    model = parse(text, opset=opset)
    x = np.linspace(-1, 1, 3 * 4096, dtype=np.float32 if kind == "float" else np.float16).reshape(3, 4096)
    for export in (export_cann(model), export_atc(model)):
        assert operators(export.model) == ["Neg", "RandomUniformLike", "Less", "Cast", "Mul", "Mul"]
        assert export.report.obstacles == ()
        y, mask = run(export.model, {"X": x})
        assert_same_bits(y, -x * mask.astype(x.dtype) * x.dtype.type(1 / (1 - ratio)))
        assert abs(mask.mean() - (1 - ratio)) < 0.02  # 12,288 numbers: 4 standard deviations
        assert verify(model, export.model).proven
    assert export_cann(export_cann(model).model).model == export_cann(model).model


def test_a_dropout_whose_mask_nothing_has_draws_one() -> None:
    export = export_cann(NO_MASK)
    assert operators(export.model) == ["RandomUniformLike", "Less", "Cast", "Mul", "Mul"]
    [y] = run(export.model, {"X": np.ones(64, np.float32)})
    assert set(y.tolist()) == {0.0, 4.0}


@pytest.mark.parametrize("name", ["R", "T"])
def test_a_dropout_whose_numbers_are_in_another_file_stays(name: str) -> None:
    model = ModelProto()
    model.CopyFrom(NO_MASK)
    types = value_types(model, ModelIndex(model), ExternalData())
    types.constants[name].data_location = TensorProto.EXTERNAL
    assert write_for_ge(model, 16, types) == 0


def test_a_dropout_with_a_seed_keeps_it() -> None:
    model = parse(
        DROPOUT.replace("KIND", "float")
        .replace("RATIO", "0.5")
        .replace("READ", "R")
        .replace("Dropout", "Dropout<seed = 7>"),
        opset=18,
    )
    export = export_cann(model)
    [drawn] = [node for node in export.model.graph.node if node.op_type == "RandomUniformLike"]
    assert {each.name: each.f for each in drawn.attribute if each.name == "seed"} == {"seed": 7.0}
    assert verify(model, export.model).proven


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4] X, bool T) => (Y) <float R = {0.5}> { Y = Dropout(X, R, T) }",
        "g (float[4] X, float R) => (Y) <bool T = {1}> { Y = Dropout(X, R, T) }",
        "g (float[4] X) => (Y) <float R = {1.5}, bool T = {1}> { Y = Dropout(X, R, T) }",
        "g (float[4] X) => (Y) <float R = {1.0}, bool T = {1}> { Y = Dropout(X, R, T) }",
        "g (float[4] X) => (Y) <float[2] R = {0.5, 0.5}, bool T = {1}> { Y = Dropout(X, R, T) }",
        "g (float[4] X) => (Y, M) { Y, M = Dropout(X) }",
    ],
)
def test_a_dropout_that_may_do_either_stays(text: str) -> None:
    export = export_cann(parse(text, opset=18))
    assert operators(export.model)[-1] == "Dropout"
    assert [found.code for found in export.report.obstacles] == ["no-open-prototype"]


def test_verify_sees_another_ratio() -> None:
    text = DROPOUT.replace("KIND", "float").replace("READ", "R")
    export = export_cann(parse(text.replace("RATIO", "0.25"), opset=18))
    assert not verify(parse(text.replace("RATIO", "0.5"), opset=18), export.model).proven
