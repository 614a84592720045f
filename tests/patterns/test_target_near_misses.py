# SPDX-License-Identifier: Apache-2.0

"""Proven gradients that a target's operator does not take, or that the model has no room for."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, helper

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.heads import head
from tests.patterns.lookalikes import maxpoolgrad, scatter
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says


def pooled(attributes: str, x: str, y: str, *, element_type: str = "float") -> str:
    """The gradient of a pool over `x` with output `y`: sizes after (2, 3)."""
    return maxpoolgrad.gradient(
        inputs=f"{element_type}[2,3,{x}] x, {element_type}[2,3,{y}] dy",
        outputs=f"{element_type}[2,3,{y}] y, {element_type}[2,3,{x}] dx",
        pool=attributes,
        attributes="",
    )


def with_function(name: str) -> ModelProto:
    """The genuine gradient in a model that has a function of the dialect's domain."""
    model = onnx.parser.parse_model(scatter.gradient())
    node = helper.make_node("Identity", ["x"], ["y"])
    imports = [helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("npu", name, ["x", "grad", "argmax"], ["y"], [node], imports))
    model.opset_import.append(helper.make_opsetid("npu", 1))
    return model


NEAR_MISSES: NearMisses = {
    (Code.SPATIAL_RANK, "four_axes"): pooled("kernel_shape=[2,2,2,2]", "4,4,4,4", "3,3,3,3"),
    (Code.DTYPE, "int8"): pooled("kernel_shape=[2,2]", "9,12", "8,11", element_type="int8"),
    (Code.DTYPE, "double"): pooled("kernel_shape=[2,2]", "9,12", "8,11", element_type="double"),
    (Code.PLANE_SIZE, "plane_over_int32"): pooled("kernel_shape=[2,2], strides=[2,2]", "65536,65536", "32768,32768"),
    (Code.AUTO_PAD_SYMBOLIC, "same_pads_of_a_symbolic_size"): pooled(
        'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"', "H,12", "OH,6"
    ),
    (Code.EMPTY_WINDOW, "window_between_the_elements"): pooled(
        "kernel_shape=[2,2], dilations=[1,2], pads=[0,1,0,1]", "9,1", "8,1"
    ),
    (Code.SYMBOLIC_CANVAS, "canvas_of_symbolic_size"): pooled(
        "kernel_shape=[3,3], strides=[3,2], pads=[2,1,2,1]", "H,12", "OH,6"
    ),
    (Code.SYMBOLIC_CEIL, "rounded_up_with_unequal_pads"): pooled(
        "kernel_shape=[3,3], strides=[2,2], pads=[0,1,1,1], ceil_mode=1", "H,12", "OH,7"
    ),
    (Code.OPSET, "opset_8"): maxpoolgrad.gradient().replace('"": 17', '"": 8'),
    (Code.DIALECT_CONFLICT, "another_version_of_the_dialect"): scatter.gradient(
        result="dx = Reshape (s, x_shape)\nlater = npu.Later (x)"
    ).replace('["": 18]', '["": 18, "npu": 2]'),
    (Code.DIALECT_CONFLICT, "a_function_of_the_operators_name"): with_function("MaxPool3DGradWithArgmax"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str | ModelProto, says: Says) -> None:
    says(check_refused(model, code))


@pytest.mark.refusal("target")
@pytest.mark.parametrize(
    "target", ["atlas-inference", "atlas-training", "atlas-200i-500-a2", "ascend350", "Ascend310P3"]
)
def test_products_without_the_operator(target: str, says: Says) -> None:
    model = onnx.parser.parse_model(scatter.gradient())
    [anchor] = lower(model, target=target).report.anchors
    assert (anchor.status, anchor.code, anchor.pattern) == ("refused", Code.TARGET.value, "torch_scatter_add")
    says(anchor.reason)
    assert lower(model, target=target).model.SerializeToString() == model.SerializeToString()


@pytest.mark.refusal("function-dtype")
def test_one_body_serves_one_type_below_opset_15() -> None:
    """The first gradient is lowered; the second has another element type and stays as it is."""
    model = onnx.parser.parse_model(
        head(14, ir=7)
        + """
        g (float[2,3,9,12] x, float16[2,3,9,12] h, float[2,3,5,6] dy, float16[2,3,5,6] dh)
            => (float[2,3,9,12] dx, float16[2,3,9,12] dhx) {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            z, j = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (h)
            dx = MaxPoolGrad (dy, i)
            dhx = MaxPoolGrad (dh, j)
        }"""
    )
    lowered, refused = lower(model).report.anchors
    assert (lowered.name, lowered.status) == ("dx", "lowered")
    assert (refused.name, refused.code) == ("dhx", Code.FUNCTION_DTYPE.value)
    model.opset_import[0].version = 15
    assert not lower(model).report.refused


def test_another_function_of_the_domain_is_no_conflict() -> None:
    assert lower(with_function("Other")).report.lowered
