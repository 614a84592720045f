# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's AvgPoolGrad and AvgPool3DGrad as tf2onnx leaves them, text in and node out; near misses and reasons."""

from __future__ import annotations

import pytest

from poolgrad_lowering.diagnostics.codes import Code
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses

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
    "valid": (
        gradient(attributes=SAME.replace("SAME", "VALID"), pooled="2,4,5,3"),
        of_pool(X, (3, 3), (2, 2)),
        True,
    ),
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


NEAR_MISSES: NearMisses = {
    "no_padding": (
        Code.POOL_ATTRIBUTES,
        "AvgPoolGrad 'dx' has missing or malformed attributes",
        gradient(attributes="ksize=[1,3,3,1], strides=[1,2,2,1]"),
    ),
    "one_input": (
        Code.ARITY,
        "AvgPoolGrad 'dx' takes the shape of x and dy",
        gradient(backward="dx = AvgPoolGrad <{}> (dy)"),
    ),
    "a_shape_of_another_rank": (
        Code.POOL_ATTRIBUTES,
        "'s' is the shape [2, 9, 3] for windows of 2 spatial axes",
        gradient(sizes="int32[3] s = {2,9,3}"),
    ),
    "another_number_of_windows": (
        Code.GRAD_SHAPE,
        "'dy' has shape [2, 5, 5, 3], the pool [2, 5, 6, 3]",
        gradient(pooled="2,5,5,3"),
    ),
    "another_shape_of_dx": (
        Code.DX_SHAPE,
        "'dx' has shape [2, 9, 11, 3], the pool [2, 9, 12, 3]",
        gradient(shape="2,9,11,3"),
    ),
}


@pytest.mark.parametrize(("code", "reason", "model"), near_misses(NEAR_MISSES))
def test_refused(code: Code, reason: str, model: str) -> None:
    check_refused(model, code, reason)
