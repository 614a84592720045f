# SPDX-License-Identifier: Apache-2.0

"""Resize to nearest elements against onnx's reference evaluator and onnxruntime; infinities stay what they are."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.verification.operators import moving
from tests.oracles import run_ort

WAYS = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def model(name: str, values: list[float], opset: int = 18, **attributes: str) -> onnx.ModelProto:
    """A Resize of x (1, 2, 3, 4) by scales or sizes."""
    operand = numpy_helper.from_array(np.array(values, np.int64 if name == "sizes" else np.float32), name)
    inputs = ["x", "scales"] if opset == 10 else ["x", "", *(["", "sizes"] if name == "sizes" else ["scales"])]
    node = helper.make_node("Resize", inputs, ["y"], mode="nearest", **attributes)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 3, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [operand])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(("way", "rounding"), list(product(WAYS, ROUNDINGS)))
@pytest.mark.parametrize(("name", "values"), [("scales", [1, 1, 2, 3]), ("sizes", [1, 2, 6, 6])])
def test_nearest(way: str, rounding: str, name: str, values: list[float]) -> None:
    resize = model(name, values, coordinate_transformation_mode=way, nearest_mode=rounding)
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}
    [found] = ReferenceEvaluator(resize, new_ops=list(moving.OPERATORS)).run(None, feeds)
    [expected] = ReferenceEvaluator(resize).run(None, feeds)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])
    feeds["x"][0, 0, 0, 0] = np.inf
    if way != "align_corners":
        [found] = ReferenceEvaluator(resize, new_ops=list(moving.OPERATORS)).run(None, feeds)
        np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])


def test_the_first_opset() -> None:
    resize = model("scales", [1, 1, 2, 1.5], 10)
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}
    [found] = ReferenceEvaluator(resize, new_ops=list(moving.OPERATORS)).run(None, feeds)
    np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])
