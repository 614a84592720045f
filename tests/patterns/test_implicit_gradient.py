# SPDX-License-Identifier: Apache-2.0

"""ONNX's preview operator Gradient: refused where it differentiates a pool, no anchor elsewhere."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.heads import head
from tests.patterns.lowering_checks import check_refused
from tests.texts import Says


def training(layer: str, y: str = 'y="loss"') -> str:
    """A loss behind one layer, and its gradient by x."""
    return f"""{head(17, "ai.onnx.preview.training")}
        g (float[2,3,8,8] x, float[2] t) => (float loss, float[2,3,8,8] dx) {{
            h = {layer} (x)
            a = Relu (h)
            loss = ReduceMean <keepdims=0> (a)
            dx = ai.onnx.preview.training.Gradient <xs=["x"], {y}> (x)
        }}"""


@pytest.mark.refusal(Code.IMPLICIT_GRADIENT.value)
def test_pool_in_between(says: Says) -> None:
    says(check_refused(training("MaxPool <kernel_shape=[2,2], strides=[2,2]>"), Code.IMPLICIT_GRADIENT))


OWN_OPERATOR = """
    <domain: "ai.onnx.preview.training", opset_import: ["" : 17]> Gradient (x) => (dx) { dx = Neg (x) }"""


@pytest.mark.parametrize(
    "source",
    [
        training("Softplus"),
        training("MaxPool <kernel_shape=[2,2]>", 'y="x"'),
        training("MaxPool <kernel_shape=[2,2]>", 'y="nobody"'),
        training("MaxPool <kernel_shape=[2,2]>", "z=1"),
        training("MaxPool <kernel_shape=[2,2]>") + OWN_OPERATOR,
    ],
    ids=["no_pool", "pool_behind", "nothing_differentiated", "no_y", "an_operator_of_the_models_own"],
)
def test_no_anchor(source: str) -> None:
    model = onnx.parser.parse_model(source)
    result = lower(model)
    assert not result.report.anchors
    assert result.model.SerializeToString() == model.SerializeToString()
