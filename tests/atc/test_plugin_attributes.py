# SPDX-License-Identifier: Apache-2.0

"""The plugin's table of operators against the dialect's, and the attributes that it takes from GE's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from onnx import AttributeProto

from poolgrad_lowering.dialect.op import DOMAIN, VERSION, Attribute
from poolgrad_lowering.dialect.ops import OPS
from tests.harness.atc.plugin_parts import run

NUMBERS = {
    "int": AttributeProto.INT,
    "bool": AttributeProto.INT,
    "ints": AttributeProto.INTS,
    "string": AttributeProto.STRING,
    "float": AttributeProto.FLOAT,
}
BOOLS = {"ceil_mode", "count_include_pad", "exclusive", "global_pooling"}
"""The attributes that are a Bool in GE's prototypes and an INT in ONNX."""
GE_NAMES = {"AdaptiveMaxPool3d": {"argmax": "indices"}}
"""The names of outputs that differ in GE's prototypes."""
NO_PROTOTYPE = "AdaptiveMaxPool3DGrad"

# As GE's own pb2json wrote the node of resnet_stem lowered for Ascend910B3.
RESNET_STEM = (
    '{"attribute":[{"name":"ceil_mode","type":2},{"name":"data_format","s":"NCDHW","type":3},'
    '{"ints":[1,1,1],"name":"dilation","type":7},{"ints":[1,3,3],"name":"ksize","type":7},'
    '{"ints":[0,1,1],"name":"pads","type":7},{"ints":[1,2,2],"name":"strides","type":7}]}'
)
GRADIENT, GRADIENT_V3, POOL = "MaxPool3DGradWithArgmax", "MaxPoolGradWithArgmaxV3", "MaxPool3DWithArgmaxV2"
AVERAGE, AVERAGE_2D = "AvgPool3DGrad", "AvgPoolV2Grad"


def table() -> dict[str, Any]:
    """The plugin's rows, by the names of the operators."""
    rows = [tuple(part.decode() if isinstance(part, bytes) else part for part in row) for row in run("table")]
    assert [row[0].rpartition("::")[0] for row in rows] == [f"{DOMAIN}::{VERSION}"] * len(rows)
    return {row[0].rpartition("::")[2]: row for row in rows}


def row(attribute: Attribute, kind: str) -> tuple[Any, ...]:
    """An attribute of the dialect as the plugin's table has it."""
    texts = attribute.type == AttributeProto.STRING
    listed = attribute.type == AttributeProto.INTS
    default = () if attribute.default is None or texts else attribute.default
    return (
        attribute.name.encode(),
        kind,
        attribute.length or 0,
        attribute.minimum or 0,
        [] if texts else list(attribute.allowed or ()),
        list(default) if listed or default == () else [default],
        str(attribute.default).encode() if texts else b"",
    )


def kind(attribute: Attribute) -> str:
    if attribute.name in BOOLS:
        return "bool"
    return next(name for name, number in NUMBERS.items() if number == attribute.type)


def test_the_table_is_the_dialects() -> None:
    rows = table()
    assert list(rows) == list(OPS)
    for op in OPS.values():
        _, prototype, refused, inputs, outputs, attributes, body = rows[op.name]
        names = GE_NAMES.get(op.name, {})
        assert inputs == [operand.name.encode() for operand in op.inputs]
        assert outputs == [names.get(operand.name, operand.name).encode() for operand in op.outputs]
        own = [attribute for attribute in op.attributes if not attribute.name.startswith("onnx_")]
        ours = [attribute for attribute in op.attributes if attribute.name.startswith("onnx_")]
        assert attributes == [row(attribute, kind(attribute)) for attribute in own]
        assert body == [row(attribute, kind(attribute)) for attribute in ours]
        assert refused == (op.name == NO_PROTOTYPE)
        assert (prototype == op.name) != refused


def test_texts_have_one_allowed_value_which_is_the_default() -> None:
    texts = [a for op in OPS.values() for a in op.attributes if a.type == AttributeProto.STRING]
    assert texts
    assert all(a.allowed == (a.default,) for a in texts)


def test_the_prototype_of_another_operator_has_the_same_inputs_and_outputs() -> None:
    rows = table()
    assert rows[NO_PROTOTYPE][3:5] == rows[rows[NO_PROTOTYPE][1]][3:5]


def attributes(op: str, *entries: dict[str, Any]) -> Any:
    """What the plugin makes of a node with these attributes."""
    [answer] = run("attributes", op, texts=[json.dumps({"attribute": entries}).encode()])
    return answer


def ints(name: str, *values: int) -> dict[str, Any]:
    return {"ints": list(values), "name": name, "type": AttributeProto.INTS}


WINDOW = [ints("ksize", 1, 2, 3), ints("strides", 1, 2, 2), ints("pads", 0, 1, 1)]
READ_WINDOW = [(b"ksize", "ints", [1, 2, 3]), (b"strides", "ints", [1, 2, 2]), (b"pads", "ints", [0, 1, 1])]


def test_attributes_as_ge_writes_them() -> None:
    assert run("attributes", GRADIENT, texts=[RESNET_STEM.encode()]) == [
        [
            (b"ksize", "ints", [1, 3, 3]),
            (b"strides", "ints", [1, 2, 2]),
            (b"pads", "ints", [0, 1, 1]),
            (b"dilation", "ints", [1, 1, 1]),
            (b"ceil_mode", "bool", [0]),
            (b"data_format", "string", b"NCDHW"),
        ]
    ]


def test_what_a_node_does_not_have_gets_the_default() -> None:
    assert attributes(POOL, *WINDOW) == [
        *READ_WINDOW,
        (b"dilation", "ints", [1, 1, 1]),
        (b"ceil_mode", "bool", [0]),
        (b"data_format", "string", b"NCDHW"),
        (b"dtype", "int", [3]),
    ]


def test_attributes_of_the_body_are_not_passed_on() -> None:
    body = [
        ints("onnx_kernel_shape", 3, 3),
        {"name": "onnx_ceil_mode", "type": 2, "i": 1},
        {"name": "ceil_mode", "type": 2, "i": 1},
    ]
    answer = attributes(POOL, *body, *WINDOW)
    assert (b"ceil_mode", "bool", [1]) in answer
    assert [name for name, *_ in answer if name.startswith(b"onnx_")] == []
    assert len(answer) == len(table()[POOL][5])


BROKEN: list[tuple[str, list[dict[str, Any]], str]] = [
    (GRADIENT, WINDOW[1:], "attribute 'ksize' is missing; write the model again with 'poolgrad export-atc'"),
    (GRADIENT, [], "attribute 'ksize' is missing"),
    (GRADIENT, [*WINDOW, ints("dilations", 1, 1, 1)], "attribute 'dilations' is unknown"),
    (GRADIENT, [*WINDOW, ints("onnx_pads", 1, 1)], "attribute 'onnx_pads' is unknown"),
    (GRADIENT, [*WINDOW, WINDOW[0]], "attribute 'ksize' is given twice"),
    (GRADIENT, [*WINDOW[:2], ints("pads", 0, 1)], "attribute 'pads' has 2 entries instead of 3"),
    (GRADIENT_V3, WINDOW, "attribute 'ksize' has 3 entries instead of 2"),
    (GRADIENT, [*WINDOW[:2], {"name": "pads", "type": 7}], "attribute 'pads' has 0 entries instead of 3"),
    (GRADIENT, [*WINDOW[:2], ints("pads", 0, -1, 1)], "attribute 'pads' has the value -1, which is not allowed"),
    (GRADIENT, [ints("ksize", 1, 0, 1), *WINDOW[1:]], "attribute 'ksize' has the value 0"),
    (GRADIENT, [*WINDOW, {"name": "ceil_mode", "type": 2, "i": 2}], "attribute 'ceil_mode' has the value 2"),
    (POOL, [*WINDOW, {"name": "dtype", "type": 2, "i": 7}], "attribute 'dtype' has the value 7"),
    (POOL, [*WINDOW, {"name": "dtype", "type": 2}], "attribute 'dtype' has the value 0"),
    (GRADIENT, [*WINDOW, {"name": "ceil_mode"}], "attribute 'ceil_mode' has type 0 instead of 2 (INT)"),
    (GRADIENT, [*WINDOW, {"name": "ceil_mode", "type": 1, "f": "1"}], "attribute 'ceil_mode' has type 1 instead of 2"),
    (
        GRADIENT, [*WINDOW, {"name": "data_format", "type": 3, "s": "NDHWC"}],
        "'data_format' is 'NDHWC' instead of 'NCDHW'"),
    (GRADIENT, [*WINDOW, {"name": "data_format", "type": 3}], "attribute 'data_format' is '' instead of 'NCDHW'"),
    (GRADIENT, [*WINDOW, {"name": "data_format", "type": 3, "s": "NCDHW\0"}], r"is 'NCDHW\x00' instead of 'NCDHW'"),
    (GRADIENT, [*WINDOW, {"name": "x\x1b[31m", "type": 2}], r"attribute 'x\x1b[31m' is unknown"),
    (POOL, [*WINDOW, {"name": "onnx_pads", "type": 2}], "attribute 'onnx_pads' has type 2 instead of 7 (INTS)"),
    (
        GRADIENT, [*WINDOW, {"name": "ceil_mode", "type": 2, "ref_attr_name": "c"}],
        "refers to an attribute of a function"),
    (GRADIENT, [*WINDOW, {"name": "ceil_mode", "type": 2, "i": "1"}], "GE's attributes: field 'i' is of another kind"),
    (GRADIENT, [*WINDOW[:2], {"name": "pads", "type": 7, "ints": [0, 1.5, 1]}], "an entry of 'ints' is no integer"),
    (AVERAGE, [*WINDOW[:2], ints("pads", 0, 1, 1)], "attribute 'pads' has 3 entries instead of 6"),
    (
        AVERAGE, [*WINDOW[:2], ints("pads", *[0] * 6), {"name": "divisor_override", "type": 2, "i": -1}],
        "attribute 'divisor_override' has the value -1"),
    (
        AVERAGE, [*WINDOW[:2], ints("pads", *[0] * 6), {"name": "onnx_divisor", "type": 2, "i": 1}],
        "attribute 'onnx_divisor' has type 2 instead of 1 (FLOAT)"),
    (AVERAGE_2D, WINDOW, "attribute 'ksize' has 3 entries instead of 4"),
    (
        AVERAGE_2D,
        [
            *(ints(name, 1, 1, 2, 2) for name in ("ksize", "strides", "pads")),
            {"name": "global_pooling", "type": 2, "i": 1},
        ],
        "attribute 'global_pooling' has the value 1",
    ),
    ("AdaptiveAvgPool2dGrad", [], "attribute 'orig_input_shape' is missing"),
    ("AdaptiveAvgPool2dGrad", [ints("orig_input_shape", 2, 0, 3, 3)], "'orig_input_shape' has the value 0"),
    (GRADIENT, [*WINDOW, None], "GE's attributes: an attribute is no object"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "entries", "message"), BROKEN)
def test_other_attributes_are_refused(op: str, entries: list[dict[str, Any]], message: str) -> None:
    kind, said = attributes(op, *entries)
    assert kind == "error"
    assert message in said.decode()
    assert said.isascii()
    assert "poolgrad" in said.decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "GE's attributes: the text is no object; this release of CANN"),
        ("{}", "the text has no list 'attribute'"),
        ('{"attribute":{}}', "field 'attribute' is of another kind"),
        ('{"attribute":[', "GE's attributes: not JSON: no value at byte 14; this release of CANN"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    [(kind, said)] = run("attributes", GRADIENT, texts=[text.encode()])
    assert kind == "error"
    assert message in said.decode()


def test_no_beginning_of_ges_text_is_taken() -> None:
    shorter = [RESNET_STEM[:end].encode() for end in range(1, len(RESNET_STEM))]
    assert [
        text
        for text, answer in zip(shorter, run("attributes", GRADIENT, texts=shorter), strict=True)
        if answer[0] != "error"
    ] == []
