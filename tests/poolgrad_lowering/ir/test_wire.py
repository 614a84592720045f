# SPDX-License-Identifier: Apache-2.0

"""The fields of many messages are those that protobuf reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, NodeProto

from poolgrad_lowering.ir.wire import read_fields

NUMBERS = {name: NodeProto.DESCRIPTOR.fields_by_name[name].number for name in ("input", "output", "op_type", "domain")}
NAMES = st.text(max_size=5) | st.sampled_from(["x" * 127, "x" * 128, "é" * 200, "x" * 5_000])
NODES = st.builds(
    NodeProto,
    input=st.lists(NAMES, max_size=4),
    output=st.lists(NAMES, max_size=2),
    op_type=NAMES,
    domain=NAMES,
)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field whose content has fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


@settings(derandomize=True, deadline=None, database=None)
@given(st.lists(NODES, max_size=5))
def test_fields_are_those_of_protobuf(nodes: list[NodeProto]) -> None:
    fields = read_fields([node.SerializeToString() for node in nodes], list(NUMBERS.values()))
    assert fields.unread == []
    for name, number in NUMBERS.items():
        expected = [
            (owner, value)
            for owner, node in enumerate(nodes)
            for value in (
                [getattr(node, name)] * node.HasField(name) if name in ("op_type", "domain") else getattr(node, name)
            )
        ]
        assert list(zip(*fields.strings(number), strict=True)) == expected
        assert list(zip(*fields.of(number), strict=True)) == [(owner, text.encode()) for owner, text in expected]


UNREAD = {
    "another field": field(3, b"name"),
    "a number": b"\x08\x01",
    "a group": b"\x0b\x0c",
    "a tag of two bytes": b"\x82\x01\x00",
    "a tag without length": field(1, b"x") + b"\x0a",
    "a length beyond the message": b"\x0a\x02x",
    "a length that does not end": b"\x0a\xff",
    "a length that ends in the next message": b"\x0a\x80",
    "a length of many bytes": b"\x0a\x81\x80\x80\x00x",
    "an endless length": b"\x0a" + b"\xff" * 12,
    "many fields": field(1, b"x") * 65,
    "many bytes": b"".join(field(1, b"x" * 100) for _ in range(700)),
}


@pytest.mark.parametrize("message", UNREAD.values(), ids=UNREAD)
def test_messages_of_anything_else_stay_unread(message: bytes) -> None:
    """Messages with other fields stay unread, and their neighbours are read."""
    fields = read_fields([field(1, b"before"), message, b"", field(1, b"behind")], (1, 2))
    assert fields.unread == [1]
    assert fields.strings(1) == ([0, 3], ["before", "behind"])
    assert fields.strings(2) == ([], [])


def test_as_many_fields_as_are_read() -> None:
    assert read_fields([field(1, b"x") * 64], (1,)).strings(1) == ([0] * 64, ["x"] * 64)


@pytest.mark.parametrize("before", [[], [b"x" * 70_000]])
def test_as_many_bytes_as_are_read(before: list[bytes]) -> None:
    largest = b"\x0a\xfc\xff\x03" + b"x" * 65_532
    assert len(largest) == 1 << 16
    fields = read_fields([*before, largest, field(1, b"behind"), largest + b"x"], (1,))
    first = len(before)
    assert fields.strings(1) == ([first, first + 1], ["x" * 65_532, "behind"])
    assert fields.unread == [*range(first), first + 2]


def test_a_length_that_is_longer_than_it_has_to_be() -> None:
    assert read_fields([b"\x0a\x81\x80\x00x"], (1,)).strings(1) == ([0], ["x"])


def test_no_messages() -> None:
    for messages in ([], [b"", b""]):
        fields = read_fields(messages, (1,))
        assert (fields.of(1), fields.strings(1), fields.unread) == (([], []), ([], []), [])


def test_text_that_is_not_utf8_is_bytes() -> None:
    """A string that is not UTF-8 is returned as bytes, as by protobuf."""
    messages = [field(1, b"caf\xc3\xa9"), field(1, b"\xff")]
    assert read_fields(messages, (1,)).strings(1) == ([0, 1], ["café", b"\xff"])
    attribute = AttributeProto.FromString(messages[1])
    assert attribute.name == b"\xff"  # type: ignore[comparison-overlap]
