# SPDX-License-Identifier: Apache-2.0

"""Gradients as a user's own node, text in and text out: what is lowered, and to what."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.patterns.aten_graphs import PLANE_INDICES, model, user_gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

ATTRIBUTES = "kernel_size=[3,3], stride=[2,2], padding=[1,1], dilation=[1,1], ceil_mode=0"
FORWARD = f"y, i = npu.NPUMaxPool2dWithIndices <{ATTRIBUTES}> (x)"
INDICES = "int64[2,3,5,6] i"
SUBTRACTED = """y, t = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
    unused, all = MaxPool <kernel_shape=[1,1]> (x)
    starts = Constant <value = int64[2] {0,0}> ()
    ends = Constant <value = int64[2] {1,1}> ()
    axes = Constant <value = int64[2] {2,3}> ()
    first = Slice (all, starts, ends, axes)
    i = Sub (t, first)"""


WINDOWS_3D = "kernel_size=[2,3,3], stride=[1,2,2], padding=[1,1,1], dilation=[1,1,1], ceil_mode=0"
SPELLINGS = {
    "remainder": user_gradient(forward=PLANE_INDICES),
    "difference": user_gradient(forward=SUBTRACTED),
    "indices_of_the_users_forward": user_gradient(forward=FORWARD, types=INDICES),
    "three_axes": model(
        f"""y, i = npu.NPUMaxPool3dWithIndices <{WINDOWS_3D}> (x)
            dx = npu.NPUMaxPool3dWithIndicesBackward <{WINDOWS_3D}> (dy, x, i)""",
        "float[2,3,4,9,12] x, float[2,3,5,5,6] dy",
        "float[2,3,5,5,6] y, float[2,3,4,9,12] dx",
        types="int64[2,3,5,5,6] i",
    ),
    # those of PyTorch's operator: the kernel is the stride, no padding, no dilation, floor
    "attributes_left_to_their_defaults": user_gradient(
        y="2,3,3,3",
        forward="y, t = MaxPool <kernel_shape=[3,4], strides=[3,4]> (x)\n" + PLANE_INDICES.split("\n", 1)[1],
        attributes="kernel_size=[3,4]",
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    lowered = check_lowered(source, written)
    assert [(entry.domain, entry.version) for entry in lowered.opset_import if entry.domain == "npu"] == [("npu", 1)]


def test_narrow_indices(written: Written) -> None:
    text = user_gradient(forward=FORWARD, types=INDICES.replace("int64", "int32"))
    before = onnx.parser.parse_model(text)
    written(before, lower(before, forward=False).model)


NEAR_MISSES: NearMisses = {
    (Code.INDICES_SOURCE, "indices_of_unknown_type"): user_gradient(forward=FORWARD),
    (Code.INDICES_SOURCE, "a_mask"): user_gradient(forward=FORWARD, types="uint8[2,3,9,64] i"),
    (Code.INDICES_NUMBERING, "indices_of_the_whole_tensor"): user_gradient(operands="dy, x, t"),
    (Code.PLANE_BASE, "indices_shifted"): user_gradient(
        forward=SUBTRACTED.replace("Slice (all, starts", "Slice (all, ends")
    ),
    (Code.ATTRIBUTE_MISMATCH, "kernel_differs"): user_gradient(attributes=ATTRIBUTES.replace("[3,3]", "[2,2]")),
    (Code.ATTRIBUTE_MISMATCH, "rounding_differs"): user_gradient(
        attributes=ATTRIBUTES.replace("ceil_mode=0", "ceil_mode=1")
    ),
    (Code.POOL_ATTRIBUTES, "no_kernel"): user_gradient(attributes="stride=[2,2]"),
    (Code.POOL_ATTRIBUTES, "kernel_of_another_type"): user_gradient(attributes=ATTRIBUTES.replace("[3,3]", '"3x3"')),
    (Code.POOL_ATTRIBUTES, "stride_of_another_type"): user_gradient(
        attributes=ATTRIBUTES.replace("stride=[2,2]", 'stride="2x2"')
    ),
    (Code.POOL_ATTRIBUTES, "padding_of_another_type"): user_gradient(
        attributes=ATTRIBUTES.replace("padding=[1,1]", "padding=1.0")
    ),
    (Code.POOL_ATTRIBUTES, "dilation_of_another_type"): user_gradient(
        attributes=ATTRIBUTES.replace("dilation=[1,1]", "dilation=[1.0,1.0]")
    ),
    (Code.POOL_ATTRIBUTES, "rounding_of_another_type"): user_gradient(
        attributes=ATTRIBUTES.replace("ceil_mode=0", 'ceil_mode="floor"')
    ),
    (Code.INDICES_SOURCE, "forward_of_nothing"): user_gradient(forward=FORWARD.replace("(x)", "()"), types=INDICES),
    (Code.INDICES_SOURCE, "forward_of_the_models_own"): user_gradient(forward=FORWARD, types=INDICES)
    + """<domain: "npu", opset_import: ["" : 17]> NPUMaxPool2dWithIndices (x) => (y, i) {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
        }""",
    (Code.POOL_ATTRIBUTES, "forward_malformed"): user_gradient(
        forward=FORWARD.replace("stride=[2,2]", "stride=[2,0]"), types=INDICES
    ),
    (Code.ARITY, "no_indices"): user_gradient(operands="dy, x"),
    (Code.DIALECT_CONFLICT, "another_version_of_the_domain"): user_gradient().replace('"npu": 1', '"npu": 2'),
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str, says: Says) -> None:
    says(check_refused(text, code))


def test_an_operator_of_the_models_own_is_no_anchor() -> None:
    """A function of the model says what the node does, whatever its name."""
    text = (
        user_gradient()
        + """
        <domain: "npu", opset_import: ["" : 17]>
        NPUMaxPool2dWithIndicesBackward (dy, x, i) => (dx) { dx = Neg (x) }"""
    )
    assert lower(onnx.parser.parse_model(text)).report.anchors == ()
