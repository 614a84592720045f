# SPDX-License-Identifier: Apache-2.0

"""Rewritten forms: each computes what the form before it computes, and none is left that compilers misread."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

from tests.heads import head

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from poolgrad_lowering.torch.forms import name_nodes, normalize  # noqa: E402
from tests.torch_step.graph_mode import faults  # noqa: E402

HEAD = head(18, ir=10) + " agraph "
EDGES = np.array([[-np.inf, -2.5, 0, np.nan], [np.inf, 3.5, -0.0, 1]], np.float32)

MODELS = {
    "Clip of integers": """(float[2, 4] x) => (int64[2, 4] y) <int64 low = {-1}> {
        finite = IsNaN (x) zero = Constant <value_float = 0.0> () known = Where (finite, zero, x)
        i = Cast <to = 7> (known) y = Clip (i, low) }""",
    "IsNaN": "(float[2, 4] x) => (bool[2, 4] y) { y = IsNaN (x) }",
    "IsInf": "(float[2, 4] x) => (bool[2, 4] y) { y = IsInf (x) }",
    "CastLike": "(float[2, 4] x) => (int64[2, 4] y) { s = Shape (x) z = IsNaN (x) y = CastLike (z, s) }",
    "Shape with bounds": "(float[2, 4] x) => (int64[1] y) { y = Shape <start = 1, end = 2> (x) }",
    "Shape with a start": "(float[2, 4] x) => (int64[1] y) { y = Shape <start = -1> (x) }",
    "Shape with an end": "(float[2, 4] x) => (int64[1] y) { y = Shape <end = -1> (x) }",
    "Constants": """(float[2, 4] x) => (float[8] y) {
        a = Constant <value_ints = [8]> () b = Constant <value_float = 2.5> () c = Constant <value_int = 1> ()
        d = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () e = Cast <to = 1> (c) f = Mul (x, b) g = Add (f, d)
        h = Sub (g, e) y = Reshape (h, a) }""",
    "a Constant that is an output": "(float[2, 4] x) => (float[2, 4] z, int64[2] y) { z = Neg (x) y = Constant <value_ints = [3, 4]> () }",  # noqa: E501
    "LogSoftmax": "(float[2, 4] x) => (float[2, 4] y) { y = LogSoftmax (x) }",
}


def normalized(model: onnx.ModelProto) -> onnx.ModelProto:
    held = ir.from_proto(model)
    normalize(held)
    result = ir.to_proto(held)
    name_nodes(result)
    return result


def run(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@pytest.mark.parametrize("name", MODELS)
def test_forms(name: str) -> None:
    model = parser.parse_model(HEAD + MODELS[name])
    assert faults(model)
    result = normalized(model)
    onnx.checker.check_model(result, full_check=True)
    assert not faults(result)
    for found, expected in zip(run(result, x=EDGES), run(model, x=EDGES), strict=True):
        np.testing.assert_array_equal(found, expected)  # with NaN where NaN is expected
        assert found.dtype == expected.dtype


CLIPS = {
    "a maximum": ("x, low", (-1, np.inf)),
    "a minimum": ("x, , high", (-np.inf, 1)),
    "bounds": ("x", (-np.inf, np.inf)),
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_without(name: str) -> None:
    """As in PyTorch, a bound that is missing leaves infinities. ONNX itself makes them the largest finite number."""
    operands, bounds = CLIPS[name]
    text = f"(float[2, 4] x) => (float[2, 4] y) <float low = {{-1}}, float high = {{1}}> {{ y = Clip ({operands}) }}"
    model = parser.parse_model(HEAD + text)
    assert faults(model)
    result = normalized(model)
    onnx.checker.check_model(result, full_check=True)
    assert not faults(result)
    np.testing.assert_array_equal(run(result, x=EDGES)[0], EDGES.clip(*bounds))


def test_names_of_nodes() -> None:
    """Each is there, no other node's, and no value's; good ones stay."""
    text = (
        "(float[2] x) => (float[2] y) { [x] a = Neg (x) [b] b = Neg (a) [c] d = Neg (b) [c] e = Neg (d) y = Neg (e) }"
    )
    model = parser.parse_model(HEAD + text)
    name_nodes(model)
    assert not faults(model)
    assert [node.name for node in model.graph.node] == ["node_Neg_0", "node_Neg_1", "c", "node_Neg_3", "node_Neg_4"]


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_convolutions_get_kernel_shape(op_type: str) -> None:
    text = f"(float[1, 2, 5, 6] x, float[2, 2, 3, 2] w) => (float[1, 2, H, W] y) {{ y = {op_type} (x, w) }}"
    model = parser.parse_model(HEAD + text)
    assert len(faults(model)) == 2  # an empty name, too
    result = normalized(model)
    assert not faults(result)
    (node,) = result.graph.node
    assert {a.name: list(a.ints) for a in node.attribute} == {"kernel_shape": [3, 2]}


def test_random_numbers_of_a_constant() -> None:
    """They get the constant's shape from an element of an input, and stay those of the interval."""
    model = parser.parse_model(
        HEAD
        + """(float[N, 4] x) => (float[300, 1] y, float[N, 4] z, float[N, 4] b) {
        a = RandomUniformLike <dtype = 1, low = 0.0, high = 1.0> (empty) y = Neg (a)
        b = RandomUniformLike <dtype = 1, low = 0.0, high = 1.0> (x) z = Neg (b) }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((300, 1), np.float32), "empty"))
    assert any("of constants is not taken" in fault for fault in faults(model))
    result = normalized(model)
    onnx.checker.check_model(result, full_check=True)
    assert not faults(result)
    y, z, b = run(result, x=np.zeros((7, 4), np.float32))
    assert (y.shape, z.shape) == ((300, 1), (7, 4))
    np.testing.assert_array_equal(z, -b)  # an output keeps its name
    assert -1 < y.min() < -0.9 < -0.1 < y.max() <= 0
    assert [node.output[0] for node in result.graph.node if node.op_type == "RandomUniformLike"] == [
        "random.0",
        "random.1",
    ]


def test_operators_without_bfloat16_compute_in_float32() -> None:
    """At opset 18, Conv and MaxPool have no bfloat16: the values are those of float32, rounded once."""
    shapes = {"x": [1, 2, 4, 4], "w": [3, 2, 3, 3], "y": [1, 3, 1, 1]}
    bfloat16 = onnx.TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[3, 3]),
        helper.make_node("Neg", ["c"], ["n"], "neg"),
        helper.make_node("MaxPool", ["n"], ["y"], "pool", kernel_shape=[2, 2]),
    ]
    declared = {name: helper.make_tensor_value_info(name, bfloat16, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(nodes, "halves", [declared["x"], declared["w"]], [declared["y"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(onnx.shape_inference.InferenceError, match="unsupported type"):
        onnx.checker.check_model(model, full_check=True)
    result = normalized(model)
    onnx.checker.check_model(result, full_check=True)
    assert [node.op_type for node in result.graph.node] == [
        "Cast", "Cast", "Conv", "Cast", "Neg", "Cast", "MaxPool", "Cast",
    ]  # fmt: skip
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shapes[name]).astype(ml_dtypes.bfloat16) for name in "xw")
    (found,) = ReferenceEvaluator(result).run(None, {"x": x, "w": w})
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float32), (3, 3), (1, 2))
    convolved = np.einsum("chwij,ocij->ohw", windows, w.astype(np.float32)).astype(ml_dtypes.bfloat16)
    # One rounding of a sum of 18 products in another order may be to the other neighbour.
    np.testing.assert_allclose(
        np.asarray(found, np.float32).ravel(), (-convolved.astype(np.float32)).max((1, 2)), rtol=2.0**-7
    )
