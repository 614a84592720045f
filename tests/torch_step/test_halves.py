# SPDX-License-Identifier: Apache-2.0

"""What 16-bit arithmetic computes in onnxruntime's CPU provider after each result is rounded: numpy's bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from poolgrad_lowering.torch.halves import (
    compute_in_float32,
    has_halves,
    in_float32,
    rounded_like_torch,
)

FLOAT = onnx.TensorProto.FLOAT
HALVES = {np.float16: onnx.TensorProto.FLOAT16, ml_dtypes.bfloat16: onnx.TensorProto.BFLOAT16}


def tensor(values: Any, dtype: Any, name: str = "") -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_result_is_rounded(dtype: Any) -> None:
    """(x + 0.1 + 0.3) · 3, whose first sum is an output, in a float64 too, with constants of every spelling."""
    short = HALVES[dtype]
    nodes = [
        helper.make_node("Constant", [], ["tenth"], value=tensor(0.1, dtype)),
        helper.make_node("Add", ["x", "tenth"], ["first"]),
        helper.make_node("ConstantOfShape", ["sizes"], ["more"], value=tensor([0.3], dtype)),
        helper.make_node("Add", ["first", "more"], ["second"]),
        helper.make_node("Mul", ["second", "three"], ["product"]),
        helper.make_node("Cast", ["product"], ["wide"], to=onnx.TensorProto.DOUBLE),
        helper.make_node("Cast", ["wide"], ["y"], to=short),
    ]
    graph = helper.make_graph(
        nodes,
        "rounding",
        [helper.make_tensor_value_info("x", short, [4])],
        [
            helper.make_tensor_value_info(name, to, [4])
            for name, to in (("first", short), ("wide", onnx.TensorProto.DOUBLE), ("y", short))
        ],
        [tensor(3, dtype, "three"), tensor([4], np.int64, "sizes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    before = model.SerializeToString(deterministic=True)

    rounded = rounded_like_torch(model)

    onnx.checker.check_model(rounded, full_check=True)
    assert model.SerializeToString(deterministic=True) == before
    declared = [
        (value.name, value.type.tensor_type.elem_type) for value in (*rounded.graph.input, *rounded.graph.output)
    ]
    assert declared == [("x", FLOAT), ("first", FLOAT), ("wide", onnx.TensorProto.DOUBLE), ("y", FLOAT)]
    x = np.array([1, 3.1, -70.7, 1e-3], dtype)
    session = onnxruntime.InferenceSession(rounded.SerializeToString(), providers=["CPUExecutionProvider"])
    first, wide, y = session.run(None, {"x": in_float32(x)})
    expected = x + dtype(0.1)
    np.testing.assert_array_equal(first, expected.astype(np.float32))
    expected = (expected + dtype(0.3)) * dtype(3)
    np.testing.assert_array_equal(wide, expected.astype(np.float64))
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [*HALVES, np.float32])
def test_has_halves(dtype: Any) -> None:
    """Also where only a value within the graph is declared as one."""
    to = HALVES.get(dtype, FLOAT)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["short"], to=to), helper.make_node("Cast", ["short"], ["y"], to=FLOAT)],
        "casts",
        [helper.make_tensor_value_info("x", FLOAT, [4])],
        [helper.make_tensor_value_info("y", FLOAT, [4])],
        value_info=[helper.make_tensor_value_info("short", to, [4])],
    )
    assert has_halves(helper.make_model(graph)) == (dtype in HALVES)


def test_in_float32() -> None:
    assert [in_float32(np.zeros(2, dtype)).dtype for dtype in (*HALVES, np.float32)] == [np.float32] * 3
    assert [in_float32(np.zeros(2, dtype)).dtype for dtype in (np.float64, np.int64, bool)] == [
        np.float64,
        np.int64,
        bool,
    ]


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_in_which_some_nodes_compute_in_float32_already(dtype: Any) -> None:
    """As exported steps have them: the new names are others, of nodes too, or sessions would refuse the model."""
    short = HALVES[dtype]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="node_a"),
        helper.make_node("Softmax", ["a"], ["b"], name="node_b"),
        helper.make_node("Mul", ["b", "a"], ["y"], name="node_y"),
    ]
    values = [helper.make_tensor_value_info(name, short, [4]) for name in "xaby"]
    graph = helper.make_graph(nodes, "g", values[:1], values[3:], value_info=values[1:3])
    exported = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    compute_in_float32(exported.graph, lambda node, *_, **__: node.op_type != "Softmax")
    rounded = rounded_like_torch(exported)
    names = [node.name for node in rounded.graph.node]
    results = [name for node in rounded.graph.node for name in node.output]
    assert len(set(names)) == len(names)
    assert len(set(results)) == len(results)
    onnx.checker.check_model(rounded, full_check=True)
    session = onnxruntime.InferenceSession(rounded.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([0.5, -1, 2, 3], dtype)
    a = (x.astype(np.float32) * 2).astype(dtype).astype(np.float32)
    b = session.run(["y"], {"x": x.astype(np.float32)})[0] / a
    assert b.sum() == pytest.approx(1, abs=1e-2)  # quotients of rounded products, in 16 bits
