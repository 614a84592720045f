# SPDX-License-Identifier: Apache-2.0

"""Nodes that GE would refuse or change are replaced by others, with the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc, export_cann, verify
from tests.oracles import assert_same_bits
from tests.pool_graphs import graph_table, parse, random_feeds
from tests.texts import Says

REWRITTEN = graph_table(
    """
a transposed convolution: ConvTranspose
    g (float[1,2,4,4] X, float[2,3,2,3] W) => (Y) { Y = ConvTranspose<strides = [2, 1]>(X, W) }
a convolution with no attribute: Conv
    g (float[1,2,5,5] X, float[3,2,2,3] W) => (Y) { Y = Conv(X, W) }
a convolution over three axes without strides: Conv
    g (float[1,2,4,5,3] X, float[3,2,2,3,1] W) => (Y) { Y = Conv<kernel_shape = [2, 3, 1]>(X, W) }
output_padding over three axes: ConvTranspose
    g (float[1,2,4,5,3] X, float[2,3,3,3,3] W) => (Y) { Y = ConvTranspose<kernel_shape = [3, 3, 3], strides = [2, 2, 2],
        pads = [1, 1, 1, 1, 1, 1], output_padding = [1, 0, 1]>(X, W) }
output_padding over three axes, as torch writes it: ConvTranspose
    g (float[1,2,4,5,3] X, float[2,3,3,1,3] W) => (Y) { Y = ConvTranspose<auto_pad = "NOTSET", kernel_shape = [3, 1, 3],
        strides = [2, 1, 2], pads = [1, 0, 1, 1, 0, 1], output_padding = [1, 0, 1]>(X, W) }
a constant of numbers: Constant Reshape
    g (float[2,3] X) => (Y) { S = Constant<value_ints = [3, 2]>() Y = Reshape(X, S) }
a constant number: Constant Mul
    g (float[3] X) => (Y) { C = Constant<value_float = 0.1>() Y = Mul(X, C) }
a part of a shape: Shape Slice
    g (float[2,3,5,7] X) => (Y) { Y = Shape<start = 1, end = -1>(X) }
the last axes of a shape: Shape Slice
    g (float[2,3,5] X) => (Y) { Y = Shape<start = 1>(X) }
the first axes of a shape: Shape Slice
    g (float[2,3,5] X) => (Y) { Y = Shape<end = 2>(X) }
a product with alpha: Gemm
    g (float[2,3] X, float[3,4] Z) => (Y) { Y = Gemm<alpha = 0.3>(X, Z) }
a product with alpha and transposed operands: Gemm
    g (float16[3,2] X, float16[4,3] Z) => (Y) { Y = Gemm<alpha = 0.3, transA = 1, transB = 1>(X, Z) }
a global pool over three axes: ReduceMax
    g (float[2,3,4,5,6] X) => (Y) { Y = GlobalMaxPool(X) }
a global pool over three axes at opset 18: ReduceMax
    g (float[2,3,4,5,6] X) => (Y) { Y = GlobalMaxPool(X) }
a softmax of columns, opset 11: Flatten Softmax Reshape
    g (float[2,3,4] X) => (Y) { Y = Softmax<axis = 1>(X) }
a softmax of columns of any number, opset 11: Flatten Softmax Shape Reshape
    g (float[N,3,4] X) => (Y) { Y = Softmax<axis = 1>(X) }
a softmax without an axis, opset 12: LogSoftmax
    g (float[2,3] X) => (Y) { Y = LogSoftmax(X) }
a clip without bounds: Identity
    g (float[4] X) => (Y) { Y = Clip(X) }
a clip without bounds, opset 11: Identity
    g (float[4] X) => (Y) { Y = Clip(X) }
a dropout with a ratio: Identity
    g (float[4] X) => (Y) <float R = {0.3}> { Y = Dropout(X, R) }
a dropout whose training is off: Identity
    g (float[4] X) => (Y) <float R = {0.3}, bool T = {0}> { Y = Dropout(X, R, T) }
a dropout out of training: Identity
    g (float[4] X) => (Y) { Y = Dropout(X) }
a dropout out of training, with a mask that nothing reads: Identity
    g (float[4] X) => (Y) { Y, M = Dropout(X) }
pads over axes, opset 18: Pad
    g (float[2,3,4] X) => (Y) <int64[4] P = {1, 0, 2, 1}, float v = {7.0}, int64[2] A = {-1, 0}> { Y = Pad(X, P, v, A) }
pads of another sign, as in onnxruntime's gradient of a Pad: Neg Slice
    g (float[2,5] X) => (Y) <int64[4] P = {0, 2, 0, 1}> { N = Neg(P) Y = Pad(X, N) }
negative pads: Slice Pad
    g (float[2,5] X) => (Y) <int64[4] P = {1, -1, 0, 2}> { Y = Pad(X, P) }
negative pads and one more element: Slice Pad
    g (float[2,5] X) => (Y) <int64[4] P = {1, -1, 0, 0}> { Y = Pad(X, P) }
negative pads alone: Slice
    g (float[2,5] X) => (Y) <int64[4] P = {0, -1, -1, -2}> { Y = Pad(X, P) }
a pool with the odd element in front: MaxPool
    g (float[1,2,7,6] X) => (Y) { Y = MaxPool<kernel_shape = [2, 3], strides = [2, 2], auto_pad = "SAME_LOWER">(X) }
a pool with dilations: Reshape Gather ArgMax GatherElements Reshape
    g (float[1,2,6,7] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2]>(X) }
a pool with dilations, opset 11: Reshape Gather ArgMax GatherElements Reshape
    g (float[1,2,7] X) => (Y) { Y, I = MaxPool<kernel_shape = [2], dilations = [2]>(X) }
a pool with dilations of a batch of any size: Reshape Gather ArgMax GatherElements Reshape
    g (float[N,2,6,7] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2], dilations = [2, 1]>(X) }
an average pool with the odd element in front: AveragePool
    g (float[1,2,7,6] X) => (Y) { Y = AveragePool<kernel_shape = [2, 3], auto_pad = "SAME_LOWER">(X) }
a remainder with the divisor's sign: Mod Add Mod
    g (int64[6] X) => (Y) <int64[6] Z = {3, -3, 3, -3, 5, -5}> { Y = Mod(X, Z) }
a remainder of a sum: Neg Add Mod Add Mod
    g (int64[4] X) => (Y) <int64[4] Z = {3, -3, 5, -5}> { N = Neg(X) S = Add(N, Z) Y = Mod(S, Z) }
remainders of a difference: Mod Add Mod Sub Mod Add Mod
    g (int64[4] X) => (Y) <int64[4] Z = {3, -3, 5, -5}> { M = Mod(X, Z) S = Sub(M, Z) Y = Mod(S, Z) }
a quotient of a remainder: Mod Add Mod Add Div
    g (int64[4] X) => (Y) <int64[4] Z = {3, -3, 5, -5}> { M = Mod(X, Z) S = Add(M, Z) Y = Div(S, Z) }
a softmax of nothing, opset 11: Flatten Softmax Shape Reshape
    g (float[2,0,4] X) => (Y) { Y = Softmax(X) }
a loss that ignores no class: ArgMax SoftmaxCrossEntropyLoss
    g (float[4,3,2] X) => (Y, P) { T = ArgMax<keepdims = 0, axis = 1>(X) Y, P = SoftmaxCrossEntropyLoss(X, T) }
a weighted loss of each element: ArgMax SoftmaxCrossEntropyLoss
    g (float[4,3] X, float[3] W) => (Y) {
        T = ArgMax<keepdims = 0, axis = 1>(X)
        Y = SoftmaxCrossEntropyLoss<reduction = "none">(X, T, W)
    }
the largest elements, opset 11: TopK Cast Cast
    g (float[4,6] X) => (V, I) <int64[1] K = {3}> { V, I = TopK<axis = 1>(X, K) }
the largest elements, whose places are cast to the type that they have, opset 11: TopK Cast Cast Cast
    g (float[4,6] X) => (V, J) <int64[1] K = {3}> { V, I = TopK<axis = 1>(X, K) J = Cast<to = 7>(I) }
the largest elements of an old opset, opset 9: TopK Cast Cast
    g (float[4,6] X) => (V, I) { V, I = TopK<k = 3>(X) }
the least element: ArgMin Cast Cast Add
    g (float[4,6] X) => (Y) <int64 o = {1}> { I = ArgMin<keepdims = 0, axis = 1>(X) Y = Add(I, o) }
the least element in a branch: ArgMin Cast Cast If
    g (bool c, float[4,6] X) => (Y) {
        I = ArgMin(X)
        Y = If(c) <then_branch = t () => (P) { P = Neg(I) }, else_branch = e () => (Q) { Q = ArgMin(X) }>
    }
the type of another value, opset 15: Cast
    g (float16[4] X, float[2] T) => (Y) { Y = CastLike(X, T) }
the type of a computed value, opset 15: Cast Cast
    g (float[4] X, float[2] T) => (Y) { H = Cast<to = 10>(T) Y = CastLike(X, H) }
a Euclidean norm, opset 18: ReduceSumSquare Sqrt
    g (float[2,70,4] X) => (Y) <int64[2] A = {-2, 0}> { Y = ReduceL2<keepdims = 0>(X, A) }
a Euclidean norm of all elements, opset 18: ReduceSumSquare Sqrt
    g (float[3,50] X) => (Y) { Y = ReduceL2<keepdims = 0>(X) }
a sum of sizes of some axes, opset 18: Abs ReduceSum
    g (float[2,3] X) => (Y) <int64[1] A = {0}> { Y = ReduceL1<noop_with_empty_axes = 1>(X, A) }
a sum of sizes, opset 18: Abs ReduceSum
    g (float[2,70,4] X) => (Y) <int64[1] A = {1}> { Y = ReduceL1(X, A) }
the logarithm of a sum, opset 13: Exp ReduceSum Log
    g (float[2,3,4] X) => (Y) { P = Exp(X) Y = ReduceLogSum<axes = [-1]>(P) }
the logarithm of a sum of all, opset 18: Exp ReduceSum Log
    g (float[2,3] X) => (Y) { P = Exp(X) Y = ReduceLogSum<keepdims = 0>(P) }
a hard swish, opset 14: HardSigmoid Mul
    g (float[2,30] X) => (Y) { Y = HardSwish(X) }
a sum of all sizes, opset 18: Abs ReduceSum
    g (float[2,70,4] X) => (Y) { Y = ReduceL1<keepdims = 0>(X) }
a transposition of a scalar: Identity
    g (float X) => (Y) { Y = Transpose(X) }
a transposition without axes: Transpose
    g (float[2,3,4] X) => (Y) { Y = Transpose(X) }
a sum at tuples: Add Less Where Mul ReduceSum Reshape Reshape Expand Reshape ScatterElements Reshape
    g (float[4,3,2] X, float[5,2] U) => (Y) <int64[5,2] I = {0, 1, -1, 2, 0, 1, 3, 2, 0, -2}> {
        Y = ScatterND<reduction = "add">(X, I, U)
    }
a sum at tuples of several axes: Add Less Where Mul ReduceSum Reshape Reshape Expand Reshape ScatterElements Reshape
    g (float[4,3] X, float[2,2,3] U) => (Y) <int64[2,2,1] I = {0, 1, -1, 1}> {
        Y = ScatterND<reduction = "add">(X, I, U)
    }
a sum of updates whose number the positions alone tell: Mul ReduceSum Cast Add Slice
Add Less Where Mul ReduceSum Reshape Reshape Expand Reshape ScatterElements Reshape
    g (float[6] X, float[2] U) => (Y) <int64[2,1] I = {4, 1}, int64[1] from = {0}, int64[1] two = {2},
        float zero = {0.0}, int64[2] column = {-1, 1}> {
        zeros = Mul(X, zero) sum = ReduceSum(zeros) size = Cast<to = 7>(sum) to = Add(size, two)
        some = Slice(U, from, to)
        Y = ScatterND<reduction = "add">(X, I, some)
    }
a sum at positions whose number the updates alone tell: Mul ReduceSum Cast Add Slice Reshape
Add Less Where Mul ReduceSum Reshape Reshape Expand Reshape ScatterElements Reshape
    g (float[6] X, float[2] U) => (Y) <int64[2] I = {4, 1}, int64[1] from = {0}, int64[1] two = {2},
        float zero = {0.0}, int64[2] column = {-1, 1}> {
        zeros = Mul(X, zero) sum = ReduceSum(zeros) size = Cast<to = 7>(sum) to = Add(size, two)
        part = Slice(I, from, to) positions = Reshape(part, column)
        Y = ScatterND<reduction = "add">(X, positions, U)
    }
a sum at positions whose number nothing tells: Mul ReduceSum Cast Add Slice Slice Reshape
Add Less Where Mul ReduceSum Reshape Reshape Shape Expand Reshape ScatterElements Reshape
    g (float[6] X, float[2] U) => (Y) <int64[2] I = {4, 1}, int64[1] from = {0}, int64[1] two = {2},
        float zero = {0.0}, int64[2] column = {-1, 1}> {
        zeros = Mul(X, zero) sum = ReduceSum(zeros) size = Cast<to = 7>(sum) to = Add(size, two)
        some = Slice(U, from, to)
        part = Slice(I, from, to) positions = Reshape(part, column)
        Y = ScatterND<reduction = "add">(X, positions, some)
    }
"""
)


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def run(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@pytest.mark.parametrize(("model", "expected"), REWRITTEN.values(), ids=REWRITTEN)
def test_a_form_has_the_results_of_the_node(model: ModelProto, expected: str) -> None:
    export = export_atc(model)
    assert export.report.converts
    assert export.report.edits.rewritten > 0
    assert operators(export.model) == expected.split()
    onnx.shape_inference.infer_shapes(export.model, check_type=True, strict_mode=True)
    feeds = random_feeds(model)
    for found, wanted in zip(run(export.model, feeds), run(model, feeds), strict=True):
        assert_same_bits(found, wanted)


@pytest.mark.parametrize("model", [model for model, _ in REWRITTEN.values()], ids=REWRITTEN)
def test_verify_takes_a_rewrite_for_its_node(model: ModelProto) -> None:
    assert verify(model, export_atc(model).model).differences == ()
    assert verify(model, export_cann(model).model).proven


@pytest.mark.parametrize("model", [model for model, _ in REWRITTEN.values()], ids=REWRITTEN)
def test_an_export_has_nothing_left_to_write(model: ModelProto) -> None:
    export = export_atc(model)
    again = export_atc(export.model)
    assert again.report.edits.rewritten == 0
    assert again.model == export.model


LARGE_AVERAGES = graph_table(
    """
a large average of planes: ReduceMean
    g (float[N,2,16,16] X) => (Y) { Y = AveragePool<kernel_shape = [16, 16], strides = [16, 16]>(X) }
a large average of rows, opset 18: ReduceMean
    g (float[2,3,512] X) => (Y) { Y = AveragePool<kernel_shape = [512], ceil_mode = 1>(X) }
a large average of volumes: ReduceMean
    g (float[1,2,8,4,16] X) => (Y) { Y = AveragePool<kernel_shape = [8, 4, 16], auto_pad = "VALID">(X) }
a large stride: ReduceMean
    g (float[2,3,64] X) => (Y) { Y = AveragePool<kernel_shape = [64], strides = [64]>(X) }
an average of planes that CANN takes: AveragePool
    g (float[2,3,8,16] X) => (Y) { Y = AveragePool<kernel_shape = [8, 16]>(X) }
a large average of parts: AveragePool
    g (float[2,3,16,32] X) => (Y) { Y = AveragePool<kernel_shape = [16, 16], strides = [1, 16]>(X) }
a large average beside padding: AveragePool
    g (float[2,3,256] X) => (Y) { Y = AveragePool<kernel_shape = [256], pads = [0, 1]>(X) }
"""
)


@pytest.mark.parametrize(("model", "expected"), LARGE_AVERAGES.values(), ids=LARGE_AVERAGES)
def test_a_large_average_of_whole_planes_is_a_mean(model: ModelProto, expected: str) -> None:
    export = export_cann(model)
    assert operators(export.model) == expected.split()
    feeds = {"X": np.random.default_rng(0).integers(-99, 99, random_feeds(model)["X"].shape).astype(np.float32)}
    for found, wanted in zip(run(export.model, feeds), run(model, feeds), strict=True):
        assert_same_bits(found, wanted)  # sums of small integers are exact in any order
    assert verify(model, export.model).proven


TESTED = "g (float[2,3] X) => (bool[2,3] Y) { Z = Log(X) N = Neg(Z) M = Div(N, N) Y = TEST(M) }"
REWRITTEN_OF_GRAPH_MODE = {
    "a test for NaN": (parse(TESTED.replace("TEST", "IsNaN")), ["Equal", "Not"]),
    "a test for infinities": (parse(TESTED.replace("TEST", "IsInf").replace("Div(N, N)", "Neg(N)")), ["Abs", "Equal"]),
}


@pytest.mark.parametrize(("model", "expected"), REWRITTEN_OF_GRAPH_MODE.values(), ids=REWRITTEN_OF_GRAPH_MODE)
def test_a_node_that_would_stay_on_the_cpu_has_a_form_in_graph_mode(model: ModelProto, expected: list[str]) -> None:
    export = export_cann(model)
    assert operators(export.model) == ["Log", "Neg", operators(model)[2], *expected]
    feeds = {"X": np.array([[0, -1, 1], [2, np.inf, np.nan]], np.float32)}
    [found], [wanted] = run(export.model, feeds), run(model, feeds)
    assert_same_bits(found, wanted)
    assert 0 < found.sum() < found.size
    assert verify(model, export.model).differences == ()
    assert export_cann(export.model).model == export.model
    assert operators(export_atc(model).model) == operators(model)


@pytest.mark.obstacle("on-the-cpu")
def test_a_node_that_stays_on_the_cpu_is_named_and_does_not_stop_the_export(says: Says) -> None:
    model = parse("g (float[2,3] X) => (Y) { Z = Neg(X) [angle] Y = Tan(Z) }")
    report = export_cann(model).report
    [found] = report.obstacles
    assert (found.node, found.operator, found.code) == ("angle", "Tan", "on-the-cpu")
    assert report.converts
    says(found.reason)
    assert export_atc(model).report.obstacles == ()


def test_a_test_for_infinities_of_a_type_without_any_stays() -> None:
    model = parse("g (float8e4m3fn[2] X) => (Y) { Y = IsInf(X) }", opset=20)
    assert operators(export_cann(model).model) == ["IsInf"]


@pytest.mark.parametrize(
    ("test", "opset", "expected"),
    [
        ("IsInf<detect_negative = 0>", 16, ["IsInf"]),
        ("IsInf", 10, ["IsInf"]),
        ("IsInf", 11, ["Abs", "Equal"]),
        ("IsNaN", 10, ["IsNaN"]),
        ("IsNaN", 11, ["Equal", "Not"]),
    ],
)
def test_a_test_for_one_infinity_or_of_an_old_opset_stays(test: str, opset: int, expected: list[str]) -> None:
    model = parse(f"g (float[2,3] X) => (bool[2,3] Y) {{ Y = {test}(X) }}", opset=opset)
    assert operators(export_cann(model).model) == expected


RANDOM = parse(
    """g (float[N,4] X, int64[N] T) => (Y, V, W, U, R, O) <int64[2] S = {3, 50}> {
        Y = RandomUniformLike<low = 2.0, high = 3.0>(C) V = RandomNormalLike(D) W = RandomUniformLike(X)
        F = ConstantOfShape(S) U = RandomUniformLike(F) R = RandomNormal<shape = [7], dtype = 11>()
        O = RandomNormal<shape = [1]>()
    }""",
    opset=18,
)
for _name, _array in {"C": np.zeros((30, 2), np.float32), "D": np.zeros(5, np.float64)}.items():
    RANDOM.graph.initializer.append(onnx.numpy_helper.from_array(_array, _name))


def test_random_numbers_like_a_constant_become_some_like_an_element_of_an_input() -> None:
    """All nodes have one element; one that is like a value that is no constant stays."""
    export = export_cann(RANDOM).model
    assert operators(export) == [
        *("Reshape", "Slice", "Expand", "RandomUniformLike"),
        *("Expand", "RandomNormalLike", "RandomUniformLike"),
        *("ConstantOfShape", "Expand", "RandomUniformLike", "Expand", "RandomNormalLike", "RandomNormalLike"),
    ]
    found = run(export, {"X": np.zeros((7, 4), np.float32), "T": np.arange(7)})
    types = [(each.shape, each.dtype.str[1:]) for each in found]
    assert types == [((30, 2), "f4"), ((5,), "f8"), ((7, 4), "f4"), ((3, 50), "f4"), ((7,), "f8"), ((1,), "f4")]
    assert 2 <= found[0].min() < 2.3
    assert 2.7 < found[0].max() <= 3
    assert verify(RANDOM, export).differences == ()
    assert export_cann(export).model == export
    assert operators(export_atc(RANDOM).model) == operators(RANDOM)


def test_a_product_with_alpha_whose_c_is_left_out() -> None:
    model = parse("g (float[2,3] X, float[3,4] Z) => (Y) { Y = Gemm<alpha = 0.3>(X, Z) }")
    expected = export_atc(model).model
    model.graph.node[0].input.append("")
    assert export_atc(model).model == expected


@pytest.mark.obstacle("shape-operand")
def test_a_shape_that_is_not_known_is_named_and_does_not_stop_the_export() -> None:
    model = parse("g (float[1,2] Z, int64[2] S) => (Y) { [spread] Y = Expand(Z, S) }")
    report = export_cann(model).report
    assert [(found.node, found.code) for found in report.obstacles] == [("spread", "shape-operand")]
    assert report.converts
    assert export_atc(model).report.obstacles == ()


@pytest.mark.obstacle("empty-input")
def test_an_input_without_elements_is_named_for_graph_mode_alone(says: Says) -> None:
    model = parse(
        "g (float[2,0] X, float[0] unread, float[2,3] Z, float[N,2] U) => (Y, V) "
        "{ Y = Concat<axis = 1>(X, Z) V = Relu(U) }"
    )
    report = export_cann(model).report
    [found] = report.obstacles
    assert (found.node, found.code) == ("", "empty-input")
    says(found.reason)
    assert not report.converts
    assert export_atc(model).report.obstacles == ()


def test_shapes_that_the_graph_computes_become_numbers_for_graph_mode_alone() -> None:
    model = parse(
        """g (float[N,6] X, float[2,3] Z) => (Y, V) {
            R = Constant<value = int64[2] {2, 3}>() P = Shape(X) N1 = Slice(P, zero, one) S = Concat<axis = 0>(N1, R)
            Y = Reshape(X, S) T = Shape(Z) C = Constant<value = float[1] {2.0}>() V = Expand(C, T)
        }""".replace("=> (Y, V) {", "=> (Y, V) <int64[1] zero = {0}, int64[1] one = {1}> {")
    )
    export = export_cann(model).model
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in export.graph.initializer}
    shapes = {
        node.output[0]: stored.get(node.input[1]) for node in export.graph.node if node.op_type in ("Reshape", "Expand")
    }
    assert shapes == {"Y": [-1, 2, 3], "V": [2, 3]}
    assert {node.op_type for node in export.graph.node} == {"Constant", "Reshape", "Expand"}
    assert verify(model, export).differences == ()
    assert export_atc(model).report.edits.rewritten == 0
