# SPDX-License-Identifier: Apache-2.0

"""Obstacles by their codes alone: at the edges of what CANN documents, and in which of the two exports they are."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc, export_cann
from tests.pool_graphs import graph_table, parse
from tests.poolgrad_lowering.ge.test_obstacles import WRONG

LIMITS = graph_table(
    """
a dilation of 255
    g (float[1,1,256,4] X, float[1,1,2,2] W) => (Y) { Y = Conv<kernel_shape = [2, 2], dilations = [255, 1]>(X, W) }
a dilation of 256: large-kernel
    g (float[1,1,257,4] X, float[1,1,2,2] W) => (Y) { Y = Conv<kernel_shape = [2, 2], dilations = [256, 1]>(X, W) }
pads of 256: large-kernel
    g (float[1,1,4,4] X, float[1,1,2,2] W) => (Y) { Y = Conv<kernel_shape = [2, 2], pads = [256, 0, 0, 0]>(X, W) }
a transposed convolution with plain attributes
    g (float[1,1,3,3,3] X, float[1,1,2,2,2] W) => (Y) {
        Y = ConvTranspose<kernel_shape = [2, 2, 2], dilations = [1, 1, 1], output_padding = [0, 0, 0]>(X, W) }
an operator of the name of one without a prototype
    g (float[2,2] X) => (Y) { Y = acme.Det(X) }
""",
    imports='"acme": 1',
)


@pytest.mark.parametrize(("model", "code"), LIMITS.values(), ids=LIMITS)
def test_what_cann_documents(model: ModelProto, code: str) -> None:
    found = [each.code for each in export_atc(model).report.obstacles]
    assert [each for each in found if each != "unregistered-operator"] == [code] * bool(code)


def of(text: str) -> ModelProto:
    return parse(text, opset=19, imports='"acme": 1')


PARTS: dict[str, tuple[ModelProto, Any, bool]] = {
    "all nodes": (WRONG["opset 19"][0], export_cann, True),
    "a part": (of("g (float[2] X) => (Y) { Z = acme.Make(X) Y = Relu(X) }"), export_cann, True),
    "no part": (of("g (float[2] X) => (Y) { Y = acme.Make(X) }"), export_cann, False),
    "no node of ONNX": (of("g (float[2] X) => (Y) { Y = acme.Make(X) }"), export_atc, True),
}


@pytest.mark.parametrize(("model", "export", "is_named"), PARTS.values(), ids=PARTS)
def test_the_opset_is_of_what_reaches_the_parser(model: ModelProto, export: Any, is_named: bool) -> None:
    assert ("opset" in {found.code for found in export(model).report.obstacles}) is is_named


def test_a_model_without_inputs_has_no_obstacle_in_graph_mode() -> None:
    assert export_cann(WRONG["no input"][0]).report.obstacles == ()
