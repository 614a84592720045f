# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's AvgPoolGrad and AvgPool3DGrad as tf2onnx leaves them, text in and node out; near misses and reasons."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

X = (2, 3, 9, 12)
SAME = 'ksize=[1,3,3,1], strides=[1,2,2,1], padding="SAME"'


def gradient(
    *,
    attributes: str = SAME,
    sizes: str = "int32[4] s = {2,9,12,3}",
    pooled: str = "2,5,6,3",
    shape: str = "2,9,12,3",
    backward: str = "dx = AvgPoolGrad <{}> (s, dy)",
) -> str:
    """Return the text of the form, some of its parts replaced."""
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{pooled}] dy) => (float[{shape}] dx) <{sizes}> {{ {backward.format(attributes)} }}"""


WINDOWS = {
    "same": (gradient(), of_pool(X, (3, 3), (2, 2), (1, 0, 1, 1)), True),
    "valid": (gradient(attributes=SAME.replace("SAME", "VALID"), pooled="2,4,5,3"), of_pool(X, (3, 3), (2, 2)), True),
    "channels second": (
        gradient(
            attributes='ksize=[1,1,3,3], strides=[1,1,2,2], padding="SAME", data_format="NCHW"',
            sizes="int32[4] s = {2,3,9,12}",
            pooled="2,3,5,6",
            shape="2,3,9,12",
        ),
        of_pool(X, (3, 3), (2, 2), (1, 0, 1, 1)),
        False,
    ),
    "three dimensions": (
        gradient(
            attributes='ksize=[1,2,2,2,1], strides=[1,2,2,2,1], padding="VALID", data_format="NDHWC"',
            sizes="int32[5] s = {1,4,6,4,2}",
            pooled="1,2,3,2,2",
            shape="1,4,6,4,2",
            backward="dx = AvgPool3DGrad <{}> (s, dy)",
        ),
        of_pool((1, 2, 4, 6, 4), (2, 2, 2), (2, 2, 2)),
        True,
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    text, expected, channels_last = WINDOWS[name]
    nodes = check_average(text, expected, op="AvgPool3DGrad", channels_last=channels_last)
    moved = [node for node in nodes if node.op_type == "Transpose"]
    assert len(moved) == (2 if channels_last else 0)


AROUND = {
    "TensorFlow's gradient before": "dy = ReluGrad (f, f) d = {} dx = Identity (d)",
    "one of filters": "dy = Conv2DBackpropInput (t, f, f) d = {} dx = Identity (d)",
    "an operand beside": "dy = Unknown (f) d = {} dx = Mul (d, q)",
    "an operand beside, farther on": "dy = Unknown (f) d = {} r = Relu (d) i = Identity (r) dx = Sub (q, i)",
    "the result of the graph": "dy = Unknown (f) d = {} dx = Identity (d)",
}


@pytest.mark.parametrize("name", AROUND)
def test_the_type_by_what_is_around(name: str) -> None:
    """An operator that tf2onnx leaves tells no type; the nodes around the gradient demand one."""
    is_typed = name == "the result of the graph"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,5,6,3] f, float[2,9,12,3] q) => ({"float[2,9,12,3] " if is_typed else ""}dx)
        <int32[4] s = {{2,9,12,3}}, int32[4] t = {{2,5,6,3}}> {{
        {AROUND[name].format(f"AvgPoolGrad <{SAME}> (s, dy)")}
    }}"""
    [anchor] = lower(onnx.parser.parse_model(text)).report.anchors
    assert (anchor.status, anchor.op) == ("lowered", "AvgPool3DGrad")


UNKNOWN = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,5,6,3] f) => (float dx) <int32[4] s = {{2,9,12,3}}> {{
        dy = Unknown (f) d = AvgPoolGrad <{}> (s, dy) dx = Other (d)
    }}"""

NEAR_MISSES: NearMisses = {
    (Code.UNKNOWN_DTYPE, "nothing_tells_the_type"): UNKNOWN.format(SAME),
    (Code.POOL_ATTRIBUTES, "no_padding"): gradient(attributes="ksize=[1,3,3,1], strides=[1,2,2,1]"),
    (Code.ARITY, "one_input"): gradient(backward="dx = AvgPoolGrad <{}> (dy)"),
    (Code.POOL_ATTRIBUTES, "a_shape_of_another_rank"): gradient(sizes="int32[3] s = {2,9,3}"),
    (Code.GRAD_SHAPE, "another_number_of_windows"): gradient(pooled="2,5,5,3"),
    (Code.DX_SHAPE, "another_shape_of_dx"): gradient(shape="2,9,11,3"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_refused(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
