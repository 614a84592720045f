# SPDX-License-Identifier: Apache-2.0

"""The function bodies of gradients of average pools give the numbers of the definition, at every opset."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.dialect import OPS, NoFunctionBodyError, function_body, registered_schemas
from poolgrad_lowering.dialect.op import Maximum
from tests.average_models import (
    CASES,
    AverageCase,
    average_feeds,
    average_model,
    average_node,
    exact_grad,
)
from tests.oracles import assert_same_bits, run_ort, run_reference

OPSETS = (11, 12, 13, 14, 15, 18, 21, 22)
"""One opset of each spelling of the bodies, and those where an operator of a spelling changed its form."""


def oldest(case: AverageCase) -> int:
    return OPS[case.op].bodies[Maximum.SELECTED].oldest


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "opset", [pytest.param(each, marks=pytest.mark.long if each in {12, 14, 15, 21} else ()) for each in OPSETS]
)
@pytest.mark.parametrize("name", CASES)
def test_every_case(name: str, opset: int, symbolic: bool) -> None:
    case = CASES[name]
    if opset < oldest(case):
        with pytest.raises(NoFunctionBodyError):
            function_body(case.op, opset, [TensorProto.FLOAT])
        return
    model = average_model(case, opset, symbolic=symbolic)
    onnx.checker.check_model(model, full_check=True)
    grad = exact_grad(case)
    feeds = average_feeds(case, model, grad)
    for run in (run_ort, run_reference):
        assert_same_bits(run(model, feeds)["y"], case.expected(grad).astype(np.float32))


@pytest.mark.parametrize("element_type", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("opset", [13, 15, 18, 21])
@pytest.mark.parametrize("name", ["2d, padding counts", "3d", "adaptive 2d", "adaptive, shape"])
def test_half_types_are_rounded_once(name: str, opset: int, element_type: int) -> None:
    """Small integers, times a divisor, are exact in the type, and so are their sums in float32."""
    case = CASES[name]
    model = average_model(case, opset, element_type)
    grad = np.random.default_rng(2).integers(-2, 3, case.grad_shape).astype(np.float32)
    edge = np.float16 if element_type == TensorProto.FLOAT16 else np.float32
    found = run_ort(model, average_feeds(case, model, grad.astype(edge)))["y"].astype(np.float32)
    exact = average_model(case, opset)
    wide = run_ort(exact, average_feeds(case, exact, grad))["y"]
    assert_same_bits(found, wide.astype(onnx.helper.tensor_dtype_to_np_dtype(element_type)).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "changed", "flaw"),
    [
        ("2d", {"onnx_kernel_shape": [3, 3]}, "onnx_kernel_shape is [3, 3], and by Ascend's attributes it is [3, 2]"),
        ("2d", {"onnx_divisor": 2.0}, "onnx_divisor is 2.0, and by Ascend's attributes it is 0.0"),
        ("2d", {"exclusive": 0}, "onnx_counted_pads is [0, 0, 0, 0], and by Ascend's attributes it is [1, 1, 1, 1]"),
        ("2d", {"pads": [1, 0, 1, 1]}, "attribute pads has 1 and 0 for a window of 3"),
        ("2d", {"pads": [2, 2, 1, 1]}, "attribute pads has 2 and 2 for a window of 3"),
        ("2d", {"strides": [1, 1, 3, 1]}, "onnx_strides is [2, 1], and by Ascend's attributes it is [3, 1]"),
        ("2d in 3d", {"ksize": [2, 3, 2]}, "onnx_kernel_shape has 2 values, and ksize, strides and pads"),
        ("adaptive, shape", {"orig_input_shape": [2, 4, 7, 8]}, "input_grad and x: batch and channels"),
    ],
)
def test_inference_finds_what_does_not_fit(name: str, changed: dict[str, object], flaw: str) -> None:

    case = CASES[name]
    model = average_model(case, 18)
    node = average_node(case, **changed)
    held = next(node for node in model.graph.node if node.domain == "npu")
    del held.attribute[:]
    held.attribute.extend(node.attribute)
    with registered_schemas(), pytest.raises(onnx.shape_inference.InferenceError, match=re.escape(flaw)):
        onnx.shape_inference.infer_shapes(model, strict_mode=True)


@pytest.mark.parametrize("name", CASES)
def test_inference_gives_the_shape(name: str) -> None:

    case = CASES[name]
    model = average_model(case, 18)
    del model.functions[:]
    with registered_schemas():
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    [y] = [value for value in inferred.graph.value_info if value.name == "y_cast"]
    assert tuple(dim.dim_value for dim in y.type.tensor_type.shape.dim) == case.x_shape
