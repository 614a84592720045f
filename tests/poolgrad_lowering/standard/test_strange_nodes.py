# SPDX-License-Identifier: Apache-2.0

"""Operators of training runtimes with attributes and operands that they do not take: they stay, with a code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from models.training_operators import OPERATORS, example
from poolgrad_lowering import InvalidModelError, lower

VALUES: tuple[Any, ...] = (b"x", 3, -1, 1 << 62, 2.5, float("nan"), [1, 2], [-1, 1 << 62], [2.5], [b"a"])


def of_its_domain(model: onnx.ModelProto, operator: str) -> onnx.NodeProto:
    [node] = [node for node in model.graph.node if node.op_type == operator]
    return node


def damaged(operator: str) -> Iterator[onnx.ModelProto]:
    """The example with each attribute of another value, without each operand, and with operands exchanged."""
    for attribute in of_its_domain(example(operator), operator).attribute:
        for value in VALUES:
            model = example(operator)
            node = of_its_domain(model, operator)
            kept = [other for other in node.attribute if other.name != attribute.name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(attribute.name, value)])
            yield model
    for position in range(len(of_its_domain(example(operator), operator).input)):
        model = example(operator)
        of_its_domain(model, operator).input[position] = ""
        yield model
        model = example(operator)
        del of_its_domain(model, operator).input[position]
        yield model
        model = example(operator)
        node = of_its_domain(model, operator)
        node.input[position] = node.input[0]
        yield model


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_damaged_node_is_no_crash(operator: str) -> None:
    for model in damaged(operator):
        try:
            report = lower(model, standard=True).report
        except InvalidModelError:
            continue
        assert report.standard is not None
        assert all(left.code for left in report.standard.left)


@pytest.mark.parametrize("element_type", [TensorProto.STRING, 99])
def test_a_type_that_is_no_number(element_type: int) -> None:
    model = example("ReluGrad")
    for value in model.graph.input:
        value.type.tensor_type.elem_type = element_type
    standard = lower(model, standard=True).report.standard
    assert standard is not None
    assert [left.code for left in standard.left] == ["unknown-sizes"]


def test_a_rank_without_the_axis() -> None:
    model = example("SoftmaxCrossEntropyLossGrad")
    [value] = [value for value in model.graph.input if value.name == "log_prob"]
    del value.type.tensor_type.shape.dim[1:]
    standard = lower(model, standard=True).report.standard
    assert standard is not None
    assert [left.code for left in standard.left] == ["unknown-sizes"]


HUGE = 1 << 40


@pytest.mark.parametrize(
    ("operator", "changed"),
    [
        ("AveragePoolGrad", {"X": [2, HUGE, 5, 5]}),
        ("AveragePoolGrad", {"X": [2, 2, HUGE, 5]}),
        ("ConvGrad", {"W": [4, 1, HUGE]}),
        ("ResizeGrad", {"X": [1, 1, HUGE]}),
        ("SliceGrad", {"X": [2, HUGE]}),
        ("SoftmaxCrossEntropyLossGrad", {"log_prob": [2, HUGE, 2]}),
    ],
)
def test_huge_sizes_take_no_memory(operator: str, changed: dict[str, list[int]]) -> None:
    """A small file may declare them."""
    model = example(operator)
    for value in model.graph.input:
        if value.name in changed:
            for dim, size in zip(value.type.tensor_type.shape.dim, changed[value.name], strict=True):
                dim.dim_value = size
    report = lower(model, standard=True).report
    assert report.standard is not None
    assert {left.code for left in report.standard.left} <= {"uncovered-operand", "unknown-sizes"}


def test_an_average_pool_over_no_axis() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18, "org.pytorch.aten": 1]> g (float[1,1] x) => (float[1,1] y) {'
        ' y = org.pytorch.aten.ATen <operator = "avg_pool2d"> (x) }'
    )
    standard = lower(model, standard=True).report.standard
    assert standard is not None
    assert [left.code for left in standard.left] == ["uncovered-operand"]


def test_adaptive_pools_of_one_image() -> None:
    """Each gradient has the sizes of its own pool, as in pyramids of them."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18, "org.pytorch.aten": 1]>'
        " g (float[1,1,4,4] x, float[1,1,1,1] dY, float[1,1,2,2] dZ) => (float[1,1,4,4] dX, float[1,1,4,4] dW) {"
        " s = Constant <value = int64[2] {1, 1}> () t = Constant <value = int64[2] {2, 2}> ()"
        ' a = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d"> (x, s)'
        ' b = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d"> (x, t)'
        ' dX = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d_backward"> (dY, x)'
        ' dW = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d_backward"> (dZ, x) }'
    )
    lowered = lower(model, standard=True).model
    session = onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    dy, dz = np.full((1, 1, 1, 1), 16, np.float32), np.float32([[[[4, 8], [12, 16]]]])
    found = session.run(None, {"x": np.zeros((1, 1, 4, 4), np.float32), "dY": dy, "dZ": dz})
    assert found[0].tolist() == np.ones((1, 1, 4, 4)).tolist()
    assert found[1][0, 0].tolist() == np.repeat(np.repeat([[1, 2], [3, 4]], 2, 0), 2, 1).tolist()
