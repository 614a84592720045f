# SPDX-License-Identifier: Apache-2.0

"""Shapes that a graph computes become numbers for graph mode, whatever size an input has in a run."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.ge.values import SHAPE_OPERANDS
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators, run

N, M = "N = Shape<start = 0, end = 1>(Z)", "M = Shape<start = 1, end = 2>(Z)"
FALSE = ["Slice", "Reshape", "Less"]
ZERO = [*FALSE, "Cast"]
PLACES = [*ZERO, "Add", "CumSum"]

SHAPES: dict[str, tuple[str, list[str]]] = {
    "one size": (f"{N} S = Concat<axis = 0>(N, two, three) Y = Reshape(X, S)", ["Reshape"]),
    "one size, and zero is a size": (
        f"{N} S = Concat<axis = 0>(N, two, three) Y = Reshape<allowzero = 1>(X, S)", ["Reshape"]),
    "a product of one size": (f"{N} P = Mul(N, three) S = Concat<axis = 0>(P, two) Y = Reshape(X, S)", ["Reshape"]),
    "two sizes, of which the input has one": (
        f"{N} {M} P = Mul(M, two) S = Concat<axis = 0>(N, P, two) Y = Reshape<allowzero = 1>(Z, S)", ["Reshape"]),
    "sizes on other axes of the input, there and back": (
        f"A = Reshape(Z, halves) B = Transpose<perm = [0, 2, 1, 3]>(A) {N} {M} P = Mul(N, two)"
        " S = Concat<axis = 0>(P, M, two) C = Reshape(B, S) D = Neg(C)"
        " T = Concat<axis = 0>(N, two, M, two) Y = Reshape(D, T)",
        ["Reshape", "Transpose", "Reshape", "Squeeze", "Neg", "Unsqueeze", "Reshape"]),
    "sizes on other axes of the input, beside one that follows": (
        f"A = Reshape(Z, halves) B = Transpose<perm = [0, 2, 1, 3]>(A) {N} {M} P = Mul(N, two)"
        " S = Concat<axis = 0>(P, M, last) C = Reshape(B, S) D = Neg(C)"
        " T = Concat<axis = 0>(N, two, M, last) Y = Reshape(D, T)",
        ["Reshape", "Transpose", "Reshape", "Squeeze", "Neg", "Unsqueeze", "Reshape"]),
    "a size before a Pad that a Slice takes away": (
        "P = Pad(Z, pads) A = Slice(P, one, far, one) S = Shape(A) C = ConstantOfShape(S) Y = Add(A, C)",
        ["Pad", "Slice", *ZERO, *ZERO, "Sub", "Sub", "Expand", "Add"]),
    "a size that a Slice takes whole": (
        f"{M} A = Slice(Z, zero, M, one, one) S = Shape(A) C = ConstantOfShape(S) Y = Add(A, C)",
        ["Slice", *ZERO, *ZERO, "Sub", "Sub", "Expand", "Add"]),
    "sizes beside repeats, as in onnxruntime's gradient of Tile": (
        "H = Neg(X) T = Tile(H, repeats) G = Neg(T) S = Shape(H) U = Unsqueeze(repeats, one) V = Unsqueeze(S, one)"
        " C = Concat<axis = 1>(U, V) F = Reshape(C, last) R = Reshape(G, F) Y = ReduceSum<keepdims = 0>(R, pairs)",
        ["Neg", "Tile", "Neg", "Reshape", "ReduceSum"]),
    "sizes beside one that follows": (
        f"{N} S = Concat<axis = 0>(N, two, last) Y = Reshape<allowzero = 1>(X, S)", ["Reshape"]),
    "a number": (f"{N} S = Concat<axis = 0>(N, three) Y = Expand(c, S)", [*ZERO, "Sub", "Expand"]),
    "zeros": (f"{N} S = Concat<axis = 0>(N, three) Y = ConstantOfShape(S)", [*ZERO, "Sub", "Expand"]),
    "a column": (
        f"{N} S = Concat<axis = 0>(N, one) Y = ConstantOfShape<value = int64[1] {{7}}>(S)", [*ZERO, "Sub"]),
    "truth values": (f"{M} S = Concat<axis = 0>(two, M) Y = Expand(b, S)", [*FALSE, "Or", "Expand"]),
    "a row": (f"A = Neg(r) {N} S = Concat<axis = 0>(N, three) Y = Expand(A, S)", ["Neg", *ZERO, "Sub"]),
    "two sizes": (
        f"{N} {M} S = Concat<axis = 0>(N, two, M) Y = Expand(c, S)",
        [*ZERO, *ZERO, "Sub", "Sub", "Expand"]),
    "a product": (
        f"{N} P = Mul(N, three) S = Concat<axis = 0>(two, P) Y = Expand(c, S)",
        [*ZERO, "Sub", "Expand", "Reshape"]),
    "a product beside sizes of the value": (
        f"A = Neg(r) {N} P = Mul(N, three) S = Concat<axis = 0>(P, three) Y = Expand(A, S)",
        ["Neg", *ZERO, "Reshape", "Sub", "Expand", "Reshape"]),
    "a product beside a size that the shape leaves to the value": (
        f"{N} P = Mul(N, three) S = Concat<axis = 0>(one, P) C = Reshape(r, column) Y = Expand(C, S)",
        ["Reshape", *ZERO, "Reshape", "Sub", "Expand", "Reshape"]),
    "a product of sizes beside another size": (
        f"{N} {M} P = Mul(N, three) S = Concat<axis = 0>(P, M) Y = Expand(c, S)",
        [*ZERO, "Expand", "Reshape", *ZERO, "Sub", "Sub"]),
    "a product of two sizes beside another size": (
        f"{N} {M} P = Mul(N, M) S = Concat<axis = 0>(P, M) Y = Expand(c, S)",
        [*ZERO, *ZERO, "Sub", "Reshape", *ZERO, "Sub", "Sub"]),
    "truth values beside a product": (
        f"{N} {M} P = Mul(N, three) S = Concat<axis = 0>(P, M) Y = Expand(b, S)",
        [*FALSE, "Expand", "Reshape", *FALSE, "Or", "Or"]),
    "truth values beside a product of two sizes": (
        f"{N} {M} P = Mul(N, M) S = Concat<axis = 0>(P, M) Y = Expand(b, S)",
        [*FALSE, *FALSE, "Or", "Reshape", *FALSE, "Or", "Or"]),
    "twice a size, of what is joined": (
        "A = Concat<axis = 0>(X, X) S = Shape(A) C = ConstantOfShape(S) Y = Add(A, C)",
        [*ZERO, "Sub", "Expand", "Reshape", "Add"]),
    "sizes that are 1 in the shape": (f"{N} S = Concat<axis = 0>(N, one, one) Y = Expand(X, S)", ["Expand"]),
    "fewer sizes than the value has": ("R = Shape<start = 2>(Z) S = Sub(R, three) Y = Expand(X, S)", ["Expand"]),
    "half of an axis that is rounded up, as torch.chunk writes it": (
        f"D = Shape<start = 2>(Z) E = Add(D, one) F = Div(E, two) A = Slice(Z, zero, F, two) B = Neg(A) {N}"
        " S = Concat<axis = 0>(N, F, last) Y = Reshape(B, S)",
        ["Add", "Div", "Slice", "Neg", "Reshape"]),
    "a size that the value has": (f"{N} S = Concat<axis = 0>(two, N, three, two) Y = Expand(X, S)", ["Expand"]),
    "a size of the value whose shape it is": (
        "A = NonZero(X) S = Shape(A) B = Expand(c, S) Y = Mul(B, B)", ["NonZero", *ZERO, "Sub", "Expand", "Mul"]),
    "sizes of windows, as in onnxruntime's gradient of a mean over them": (
        "U = Reshape(Z, planes) A = MaxPool<kernel_shape = [1, 2], strides = [2, 3]>(U) S = Shape<start = 0>(A)"
        " Q = ReduceMean(A, plane) Y = Expand(Q, S)",
        ["Reshape", "MaxPool", "ReduceMean", *ZERO, "Sub"]),
    "truth values along the value whose shape it is": (
        "A = NonZero(X) S = Shape(A) Y = Expand(b, S)", ["NonZero", *FALSE, "Or", "Expand"]),
    "rows of two sizes, as in onnxruntime's gradient of a reshape": (
        "A = Reshape(Z, rows) B = Neg(A) S = Shape(Z) Y = Reshape(B, S)",
        ["Reshape", "Neg", *PLACES, *PLACES, "Add", "Mul", "Add", "Gather"]),
    "rows of two sizes, and parts of them": (
        "A = Reshape(Z, rows) B = Neg(A) C = Reshape(Z, halves) S = Shape(C) Y = Reshape(B, S)",
        ["Reshape", "Neg", "Reshape", *PLACES, *PLACES, "Add", "Mul", "Add", "Reshape", "Gather", "Reshape"]),
    "rows of two sizes that nothing measures": (
        f"A = Reshape(Z, rows) B = Neg(A) {N} {M} S = Concat<axis = 0>(N, M, two, two) Y = Reshape(B, S)",
        ["Reshape", "Neg", *PLACES, *PLACES, "Add", "Mul", "Add", "Reshape", "Gather", "Reshape"]),
    "elements of two sizes": (
        "A = ReduceSum<keepdims = 0>(Z, two) B = Reshape(A, last) C = Neg(B) S = Shape(A) Y = Reshape(C, S)",
        ["ReduceSum", "Reshape", "Neg", *PLACES, *PLACES, "Add", "Mul", "Add", "Gather"]),
    "two sizes that follow": (
        f"{N} {M} P = Mul(N, two) Q = Mul(M, two) S = Concat<axis = 0>(P, Q) Y = Reshape(Z, S)",
        [*ZERO, "Expand", "Reshape", "Add", "CumSum"] * 2 + ["Add", "Mul", "Add", "Reshape", "Gather"]),
    "two sizes behind a number": (
        f"{N} {M} S = Concat<axis = 0>(two, N, M, two) Y = Reshape(Z, S)",
        [*PLACES, "Add", *PLACES, "Add", *["Mul", "Add"] * 2, "Reshape", "Gather"]),
    "a number between two sizes, of elements": (
        f"A = Reshape(Z, last) B = Neg(A) {N} {M} S = Concat<axis = 0>(N, two, two, M) Y = Reshape(B, S)",
        ["Reshape", "Neg", *PLACES, *PLACES, "Add", *["Mul", "Add"] * 3, "Gather"]),
    "zeros that two values share": (
        f"{N} S = Concat<axis = 0>(N, one) T = ConstantOfShape(S) U = Expand(c, S) Y = Sub(T, U)",
        [*ZERO, "Sub", "Sub", "Sub"]),
}  # fmt: skip

DECLARED: dict[str, dict[str, list[str | int]]] = {
    "sizes on other axes of the input, beside one that follows": {"C": ["2*N", "M", 2], "Y": ["N", 2, "M", 2]},
    "a size before a Pad that a Slice takes away": {"A": ["N", "M", 4]},
    "half of an axis that is rounded up, as torch.chunk writes it": {"A": ["N", "M", 2], "Y": ["N", 2, "M"]},
    "a size that a Slice takes whole": {"A": ["N", "M", 4]},
    "a product": {"Y": [2, "3*N"]},
    "two sizes that follow": {"Y": ["2*N", "2*M"]},
    "a product of sizes beside another size": {"Y": ["3*N", "M"]},
    "a product of two sizes beside another size": {"Y": ["M*N", "M"]},
    "truth values beside a product": {"Y": ["3*N", "M"]},
    "truth values beside a product of two sizes": {"Y": ["M*N", "M"]},
    "twice a size, of what is joined": {"A": ["2*N", 3, 2]},
    "a product beside sizes of the value": {"Y": ["3*N", 3]},
    "a product beside a size that the shape leaves to the value": {"Y": [3, "3*N"]},
}
"""Shapes of values that onnx does not infer; exporters declare them."""


def model_of(nodes: str) -> ModelProto:
    numbers = (
        "int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] last = {-1}, int64[2] column = {3, 1},"
        " int64[4] halves = {0, 0, 2, 2}, int64[3] repeats = {1, 2, 2}, int64[3] pairs = {0, 2, 4},"
        " int64[1] zero = {0}, int64[1] far = {9223372036854775807}, int64[4] planes = {0, 1, -1, 4},"
        " int64[2] rows = {-1, 4}, int64[2] plane = {2, 3}, int64[6] pads = {0, 0, 0, 0, 1, 0}"
    )
    values = "float c = {-0.0}, bool[1] b = {1}, float[1,3] r = {1.0, -2.0, 0.5}"
    return parse(f"g (float[N,3,2] X, float[N,M,4] Z) => (Y) <{numbers}, {values}> {{ {nodes} }}", opset=18)


def declared_model(name: str) -> ModelProto:
    """The model of a row, with the shapes that it declares."""
    nodes, _ = SHAPES[name]
    model = model_of(nodes)
    for value, shape in DECLARED.get(name, {}).items():
        declared = model.graph.output[0] if value == "Y" else model.graph.value_info.add()
        element = TensorProto.BOOL if "(b," in nodes else TensorProto.FLOAT
        declared.CopyFrom(onnx.helper.make_tensor_value_info(value, element, shape))
    return model


def computed_shapes(model: ModelProto) -> list[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in SHAPE_OPERANDS]
    return [node.name for node in nodes if node.input[SHAPE_OPERANDS[node.op_type]] not in stored]


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_of_numbers_has_the_results_of_the_computed_one(name: str) -> None:
    model, (_, expected) = declared_model(name), SHAPES[name]
    export = export_cann(model)
    assert export.report.obstacles == ()
    assert computed_shapes(model)
    assert computed_shapes(export.model) == []
    shapes = ("Shape", "Concat", "Mul", "Slice")  # what nothing reads now, which onnxruntime removes
    found = operators(export.model)
    assert [op_type for op_type in found if op_type not in shapes] == [each for each in expected if each not in shapes]
    for n, m in itertools.product((1, 2, 5), (1, 3)):
        random = np.random.default_rng(n)
        feeds = {"X": random.normal(size=(n, 3, 2)).astype(np.float32), "Z": np.full((n, m, 4), np.nan, np.float32)}
        for result, wanted in zip(run(export.model, feeds), run(model, feeds), strict=True):
            assert_same_bits(result, wanted)
    assert verify(model, export.model).differences == ()
    assert export_cann(export.model).model == export.model
    assert export_atc(model).report.edits.rewritten <= 2  # parts of Shapes


def test_a_shape_of_constants_stays_for_onnxruntime() -> None:
    """As TorchScript's exporter writes an Expand to sizes of which −1 stands for the value's."""
    nodes = (
        "w = Constant<value_ints = [2, 3]>() K = Shape(w) O = ConstantOfShape<value = int64[1] {1}>(K) M = Neg(O)"
        " e = Equal(w, M) S = Where(e, O, w) Y = Expand(r, S)"
    )
    model = model_of(nodes)
    export = export_cann(model)
    assert export.report.obstacles == ()
    assert computed_shapes(export.model) == ["Y"]
    assert verify(model, export.model).proven


OTHERS = {
    "a size that no input has": (
        "P = NonZero(X) S = Shape(P) G = Gather(S, one) U = Concat<axis = 0>(three, G) Y = Expand(c, U)"
    ),
    "the first size of a value": (
        "A = NonZero(X) B = Transpose<perm = [1, 0]>(A) T = Concat<axis = 1>(B, B) S = Shape<end = 1>(T)"
        " Y = Expand(c, S)"
    ),
    "a size of 0": f"{N} S = Concat<axis = 0>(N, zero) Y = ConstantOfShape(S)",
    "a size that follows, of a value of unknown size": (
        f"A = NonZero(X) {N} S = Concat<axis = 0>(N, last) Y = Reshape(A, S)"
    ),
    "a size of truth values": "P = NonZero(X) B = Cast<to = 9>(P) S = Shape(B) Y = Expand(c, S)",
    "two sizes, of which no input has one": (
        f"P = NonZero(X) Q = Shape(P) G = Gather(Q, one) {N} S = Concat<axis = 0>(N, G, last) Y = Reshape(Z, S)"
    ),
}


@pytest.mark.parametrize("nodes", OTHERS.values(), ids=OTHERS)
def test_other_computed_shapes_stay_and_are_named(nodes: str) -> None:
    report = export_cann(model_of(nodes)).report
    assert [found.code for found in report.obstacles] == ["shape-operand"]


def test_zeros_are_of_the_input_with_the_least_multiple_and_the_fewest_unknown_sizes() -> None:
    model = parse(
        """g (float[N,M] A, float[Q,3] B, float[N,3] C) => (Y) <float c = {2.0}> {
            S = Shape<end = 1>(C) Y = Expand(c, S) }"""
    )
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*N"
    export = export_cann(model).model
    assert [list(node.input[:1]) for node in export.graph.node if node.op_type == "Slice"] == [["C"]]


def test_zeros_of_an_old_opset() -> None:
    model = parse("g (float[N,3] X) => (Y) <float[1] c = {2.0}> { S = Shape(X) Y = Expand(c, S) }", opset=9)
    export = export_cann(model).model
    assert operators(export) == [*ZERO, "Sub", "Expand"]
    assert_same_bits(*(run(each, {"X": np.ones((2, 3), np.float32)})[0] for each in (export, model)))


@pytest.mark.parametrize("opset", [12, 13])
def test_axes_are_an_input(opset: int) -> None:
    """`verify` knows no Squeeze with axes as an attribute."""
    model = parse(
        """g (float[N,M,4] Z) => (Y) <
            int64[4] h = {0, 0, 2, 2}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}
        > {
            A = Reshape(Z, h) B = Transpose<perm = [0, 2, 1, 3]>(A) s = Shape(Z) N = Gather(s, zero) M = Gather(s, one)
            P = Mul(N, two) S = Concat<axis = 0>(P, M, two) Y = Reshape(B, S)
        }""",
        opset=opset,
    )
    assert ("Squeeze" in operators(export_cann(model).model)) is (opset == 13)


def test_a_shape_that_another_graph_computes_stays() -> None:
    """In a branch nothing is known of how it was computed."""
    branch = "If(c) <then_branch = t () => (A) { A = Reshape(X, S) }, else_branch = e () => (B) { B = Expand(o, S) }>"
    model = parse(
        f"""g (bool c, float[N,M,2] X) => (Y, Z) <float o = {{1.0}}> {{
            S = Shape(X) V = Neg(X) Z = Reshape(V, S) Y = {branch} }}"""
    )
    export = export_cann(model).model
    for n, m in ((1, 3), (2, 1)):
        feeds = {"c": np.array(n == 1), "X": np.random.default_rng(n).normal(size=(n, m, 2)).astype(np.float32)}
        for result, wanted in zip(run(export, feeds), run(model, feeds), strict=True):
            assert_same_bits(result, wanted)


def test_verify_sees_zeros_on_another_axis() -> None:
    model = model_of(SHAPES["a number"][0])
    export = export_cann(model).model
    [row] = [node for node in export.graph.node if node.op_type == "Reshape"]
    [shape] = [tensor for tensor in export.graph.initializer if tensor.name == row.input[1]]
    assert onnx.numpy_helper.to_array(shape).tolist() == [-1, 1]
    shape.CopyFrom(onnx.numpy_helper.from_array(np.array([1, -1]), shape.name))
    assert not verify(model, export).proven
