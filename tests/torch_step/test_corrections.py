# SPDX-License-Identifier: Apache-2.0

"""What is corrected in exported models: they are valid, and compute what PyTorch computes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.torch.corrections import correct
from tests.heads import head

HEAD = head(18, ir=10) + " agraph "
EDGES = np.array([[-np.inf, -2.5, 0, np.nan], [np.inf, 3.5, -0.0, 1]], np.float32)


def corrected(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.shape_inference.infer_shapes(model)
    correct(result)
    onnx.checker.check_model(result, full_check=True)
    return result


def run(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


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
    np.testing.assert_array_equal(run(corrected(model), x=EDGES)[0], EDGES.clip(*bounds))


def test_a_clip_of_integers_stays() -> None:
    model = parser.parse_model(HEAD + "(int64[4] x, int64 low) => (int64[4] y) { y = Clip (x, low) }")
    assert list(corrected(model).graph.node[0].input) == ["x", "low"]


def test_random_numbers_have_the_names_of_their_nodes() -> None:
    """One that is an output keeps its name."""
    model = parser.parse_model(
        HEAD
        + """(float[7, 4] x) => (float[7, 4] y, float[7, 4] z, float[7, 4] b) {
        a = RandomNormalLike (x) y = Neg (a) b = RandomUniformLike <low = 0.0, high = 1.0> (x) z = Neg (b) }"""
    )
    model.graph.node[0].name, model.graph.node[2].name = drawn = ["random.1", "random.3"]
    result = corrected(model)
    assert [node.output[0] for node in result.graph.node if "Random" in node.op_type] == drawn
    _, z, b = run(result, x=np.zeros((7, 4), np.float32))
    np.testing.assert_array_equal(z, -b)


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
    result = corrected(model)
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


def test_no_value_is_declared_that_no_node_defines() -> None:
    """The numbers of a pool whose indices alone are read are no value in bfloat16."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        g (bfloat16[1, 1, 4, 4] x) => (int64[1, 1, 2, 2] indices) <bfloat16[1, 1, 2, 2] y>
        { y, indices = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }
    """)
    correct(model)
    assert {value.name for value in model.graph.value_info} == {"x_float32", "y_unrounded"}
    assert {name for node in model.graph.node for name in node.output} == {"x_float32", "y_unrounded", "indices"}
