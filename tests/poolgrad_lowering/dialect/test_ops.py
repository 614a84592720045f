# SPDX-License-Identifier: Apache-2.0

"""The attributes of the dialect and their rules, written out once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from onnx import AttributeProto, helper

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.op import Attribute, value_of
from poolgrad_lowering.dialect.ops import _CEIL, _LAYOUTS, _ONNX_WINDOW, _index_type, _window

INT, INTS, STRING, FLOAT = AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING, AttributeProto.FLOAT

Rules = list[tuple[str, int, Any, int | None, int | None, Any]]
"""Name, type, default, length, least number, allowed values of each attribute."""


def window(axes: int) -> Rules:
    return [
        ("ksize", INTS, None, axes, 1, None),
        ("strides", INTS, None, axes, 1, None),
        ("pads", INTS, None, axes, 0, None),
        ("dilation", INTS, (1,) * axes, axes, 1, None),
    ]


def layout(name: str) -> Rules:
    return [
        ("ceil_mode", INT, 0, None, None, (0, 1)),
        ("data_format", STRING, name, None, None, (name,)),
    ]


def index_type(name: str) -> Rules:
    return [(name, INT, 3, None, None, (3, 9))]


IN_ONNX: Rules = [
    ("onnx_kernel_shape", INTS, None, None, 1, None),
    ("onnx_strides", INTS, None, None, 1, None),
    ("onnx_pads", INTS, None, None, 0, None),
    ("onnx_dilations", INTS, None, None, 1, None),
    ("onnx_ceil_mode", INT, None, None, None, (0, 1)),
]
AVERAGED: Rules = [
    ("onnx_kernel_shape", INTS, None, None, 1, None),
    ("onnx_strides", INTS, None, None, 1, None),
    ("onnx_pads", INTS, None, None, 0, None),
    ("onnx_output_padding", INTS, None, None, 0, None),
    ("onnx_counted_pads", INTS, None, None, 0, None),
    ("onnx_uncounted_pads", INTS, None, None, 0, None),
    ("onnx_divisor", FLOAT, 0.0, None, None, None),
]
TABLE: dict[str, Rules] = {
    "MaxPool3DGradWithArgmax": window(3) + layout("NCDHW"),
    "MaxPoolGradWithArgmaxV3": window(2) + index_type("dtype") + layout("NCHW"),
    "AdaptiveMaxPool3DGrad": [],
    "MaxPool3DWithArgmaxV2": window(3) + layout("NCDHW") + index_type("dtype") + IN_ONNX,
    "MaxPoolWithArgmaxV3": window(2) + index_type("dtype") + layout("NCHW") + IN_ONNX,
    "AdaptiveMaxPool3d": [("output_size", INTS, None, 3, 1, None), *index_type("indices_dtype")],
    "AvgPool3DGrad": [
        ("ksize", INTS, None, 3, 1, None),
        ("strides", INTS, None, 3, 1, None),
        ("pads", INTS, None, 6, 0, None),
        ("ceil_mode", INT, 0, None, None, (0, 1)),
        ("count_include_pad", INT, 1, None, None, (0, 1)),
        ("divisor_override", INT, 0, None, 0, None),
        ("data_format", STRING, "NCDHW", None, None, ("NCDHW",)),
        *AVERAGED,
    ],
    "AvgPoolV2Grad": [
        ("ksize", INTS, None, 4, 1, None),
        ("strides", INTS, None, 4, 1, None),
        ("padding_mode", STRING, "CALCULATED", None, None, ("CALCULATED",)),
        ("pads", INTS, None, 4, 0, None),
        ("data_format", STRING, "NCHW", None, None, ("NCHW",)),
        ("global_pooling", INT, 0, None, None, (0,)),
        ("ceil_mode", INT, 0, None, None, (0, 1)),
        ("exclusive", INT, 1, None, None, (0, 1)),
        ("divisor_override", INT, 0, None, 0, None),
        *AVERAGED,
    ],
    "AdaptiveAvgPool3dGrad": [("data_format", STRING, "NCDHW", None, None, ("NCDHW",))],
    "AdaptiveAvgPool2dGrad": [("orig_input_shape", INTS, None, 4, 1, None)],
}


def rules(attributes: Iterable[Attribute]) -> Rules:
    return [(a.name, a.type, a.default, a.length, a.minimum, a.allowed) for a in attributes]


def test_the_table() -> None:
    assert {name: rules(op.attributes) for name, op in OPS.items()} == TABLE
    assert all(attribute.doc.endswith(".") for op in OPS.values() for attribute in op.attributes)


@pytest.mark.parametrize(
    ("built", "expected", "doc"),
    [
        (lambda: _window("DHW"), window(3), "Window size along D, H, W."),
        (lambda: _window("HW"), window(2), "Window size along H, W."),
        (lambda: (_CEIL, _LAYOUTS["NCHW"]), layout("NCHW"), "1 if the pooled size was rounded up, 0 if down."),
        (
            lambda: [_index_type("dtype")],
            index_type("dtype"),
            "Ascend's number of argmax's type: 3 is int32, 9 is int64.",
        ),
        (lambda: _ONNX_WINDOW, IN_ONNX, "Window size along each spatial axis of x, as in ONNX's MaxPool."),
    ],
)
def test_groups_of_attributes(built: Any, expected: Rules, doc: str) -> None:
    assert rules(built()) == expected
    assert built()[0].doc == doc


def test_the_least_value_of_a_single_number() -> None:
    count = Attribute("count", INT, "A number.", minimum=1)
    assert value_of(count, helper.make_attribute("count", 1)) == 1
    with pytest.raises(ValueError, match="is 0, expected at least 1"):
        value_of(count, helper.make_attribute("count", 0))
