# SPDX-License-Identifier: Apache-2.0

"""GE's JSON text of a node's attributes, against texts that GE's own converter wrote and against its rules."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper

from tests.harness.ge.pb2json import attribute_text, escaped, source_attributes

# What GE's own pb2json wrote for the gradient of a 3×3 pool, without its white space.
WRITTEN_BY_GE = (
    '{"attribute":[{"name":"ceil_mode","type":2},{"name":"data_format","s":"NCDHW","type":3},'
    '{"ints":[1,1,1],"name":"dilation","type":7},{"ints":[1,3,3],"name":"ksize","type":7},'
    '{"ints":[0,1,1],"name":"pads","type":7},{"ints":[1,2,2],"name":"strides","type":7}]}'
)


def node(**attributes: Any) -> NodeProto:
    return helper.make_node("Op", ["a", ""], ["b"], name="n", domain="d", **attributes)


def members(**attributes: Any) -> Any:
    return json.loads(attribute_text(node(**attributes)))["attribute"][0]


def test_the_text_is_the_one_that_ge_writes() -> None:
    gradient = node(
        ksize=[1, 3, 3], strides=[1, 2, 2], pads=[0, 1, 1], dilation=[1, 1, 1], ceil_mode=0, data_format="NCDHW"
    )
    text = attribute_text(gradient)
    assert "".join(text.split()) == WRITTEN_BY_GE
    assert text.startswith('{\n  "attribute": [\n    {\n      "name": "ceil_mode",\n      "type": 2\n    },\n')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, {"type": 2}),
        (-3, {"type": 2, "i": -3}),
        (0.0, {"type": 1}),
        (-0.0, {"type": 1, "f": "-0"}),
        (0.5, {"type": 1, "f": "0.5"}),
        (1e20, {"type": 1, "f": "1e+20"}),
        (-1.234567e-12, {"type": 1, "f": float(np.float32(-1.234567e-12))}),
        ([1.5, 2.0], {"type": 6, "floats": [1.5, 2.0]}),
        ("", {"type": 3}),
        ("NCHW", {"type": 3, "s": "NCHW"}),
        ("a\"'\\\n\x01é", {"type": 3, "s": r"a\"\'\\\n\001\303\251"}),
        (["a\n", "é"], {"type": 8, "strings": ["a\n", "é"]}),
        ([b"\xffa", b"b"], {"type": 8, "strings": ["a", "b"]}),
        ([0, 2**62], {"type": 7, "ints": [0, 2**62]}),
    ],
)
def test_values_are_written_as_ge_writes_them(value: Any, expected: dict[str, Any]) -> None:
    assert members(value=value) == {"name": "value", **expected}


def test_a_tensor_is_an_object_with_escaped_bytes() -> None:
    tensor = numpy_helper.from_array(np.array([1, -1], np.int32), "t")
    assert members(value=tensor) == {
        "name": "value",
        "type": 4,
        "t": {"dims": [2], "data_type": 6, "name": "t", "raw_data": r"\001\000\000\000\377\377\377\377"},
    }


def test_every_byte_is_escaped_as_in_c() -> None:
    text = escaped(bytes(range(256)))
    assert text.startswith(r"\000\001\002") and text.endswith(r"\375\376\377")  # noqa: PT018
    assert r"\010\t\n\013\014\r\016" in text
    assert r" !\"#$%&\'()" in text
    assert r"[\\]" in text
    assert r"~\177\200" in text


def test_the_source_operator_has_the_fields_that_are_not_empty() -> None:
    plain = NodeProto(op_type="Op", input=["a", ""], output=["b"])
    assert source_attributes(plain, "ai.onnx::16::Op") == {
        "op_type": "ai.onnx::16::Op",
        "input": ["a", ""],
        "output": ["b"],
    }
    assert sorted(source_attributes(node(i=1), "d::1::Op")) == [
        "attribute", "domain", "input", "name", "op_type", "output",
    ]  # fmt: skip


def test_fields_that_ge_does_not_know_are_dropped() -> None:
    later = node(value=1)
    before = source_attributes(later, "k")
    later.overload = "o"
    later.metadata_props.add(key="a", value="b")
    assert source_attributes(later, "k") == before
