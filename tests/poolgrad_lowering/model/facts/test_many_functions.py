# SPDX-License-Identifier: Apache-2.0

"""Models with more functions, or nodes with subgraphs, than onnx's inference and its inliner take."""

from __future__ import annotations

import time
from collections.abc import Callable

import onnx
import onnx.inliner
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import PoolgradError, lower, verify
from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.ge.atc.prepare import expand_operators
from tests.patterns.lookalikes.scatter import gradient

MOST = 10_000  # onnx refuses models with more functions
SHAPE = [2, 3, 9, 12]


def with_functions(count: int) -> ModelProto:
    """A pool gradient beside calls of functions."""
    model = onnx.parser.parse_model(gradient())
    model.opset_import.append(helper.make_opsetid("own", 1))
    opsets = [helper.make_opsetid("", 18)]
    for number in range(count):
        body = [helper.make_node("Neg", ["a"], ["b"])]
        model.functions.append(helper.make_function("own", f"f{number}", ["a"], ["b"], body, opsets))
        model.graph.node.append(helper.make_node(f"f{number}", ["x"], [f"o{number}"], domain="own"))
    return model


def with_subgraphs(count: int) -> ModelProto:
    """A pool gradient beside nodes with branches."""
    model = onnx.parser.parse_model(gradient())
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    for number in range(count):
        branches = {}
        for branch in ("then_branch", "else_branch"):
            made = helper.make_tensor_value_info(f"{branch}{number}", TensorProto.FLOAT, SHAPE)
            branches[branch] = helper.make_graph([helper.make_node("Neg", ["x"], [made.name])], branch, [], [made])
        model.graph.node.append(helper.make_node("If", ["c"], [f"o{number}"], **branches))
    return model


def is_lowered(model: ModelProto) -> bool:
    return "npu" in {node.domain for node in lower(model, target="atlas-a2").model.graph.node}


@pytest.mark.parametrize("make", [with_functions, with_subgraphs])
def test_the_gradient_beside_them_is_lowered(make: Callable[[int], ModelProto]) -> None:
    assert is_lowered(make(MOST + 1))


@pytest.mark.long
@pytest.mark.parametrize(("make", "fewest"), [(with_functions, 2_500), (with_subgraphs, 600)])
def test_time_is_linear(make: Callable[[int], ModelProto], fewest: int) -> None:
    """Four times as many take less than eight times as long: were it quadratic, sixteen times."""
    seconds = []
    for count in (fewest, 4 * fewest):
        model = make(count)
        start = time.process_time()
        lowered = lower(model, target="atlas-a2").model
        assert verify(model, lowered, whole_model=False).proven
        seconds.append(time.process_time() - start)
    assert seconds[1] < 8 * seconds[0]


def test_what_onnx_cannot_inline_is_an_error_of_ours() -> None:
    model = with_functions(MOST)
    model.functions.append(function_body("AdaptiveMaxPool3DGrad", 18, [TensorProto.FLOAT]))
    try:
        onnx.inliner.inline_local_functions(model)
    except onnx.checker.ValidationError:
        pass
    else:
        pytest.skip("this release of onnx has no limit")
    with pytest.raises(PoolgradError, match="onnx cannot inline the functions of AdaptiveMaxPool3DGrad"):
        expand_operators(model)
