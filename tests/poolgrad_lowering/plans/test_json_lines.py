"""JSON with lines: the values of Python's parser, and for each the line it stands on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolgrad_lowering.plans.json_lines import JsonFault, Located, parse

TEXTS = st.text(max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))


def plain(located: Located) -> Any:
    value = located.value
    if isinstance(value, dict):
        return {name: plain(member) for name, (_, member) in value.items()}
    return [plain(element) for element in value] if isinstance(value, list) else value


@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_values_are_those_of_the_standard_parser(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(parse(text)) == json.loads(text)


def test_lines() -> None:
    document = parse('\n{"a": 1,\n\n  "b"\n: [\n2, "x\\"y",\n{ "c": null }]}\n')
    assert document.line == 2
    assert {name: (line, member.line) for name, (line, member) in document.value.items()} == {"a": (2, 2), "b": (4, 5)}
    two, text, inner = document.value["b"][1].value
    assert [(two.value, two.line), (text.value, text.line), inner.line] == [(2, 6), ('x"y', 6), 7]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "no JSON: Expecting value at column 1"),
        ('{\n  "a": 1,\n}', 3, "no JSON:"),
        ('{\n  "a": 1\n  "b": 2}', 3, "no JSON: Expecting ',' delimiter at column 3"),
        ("[1, 2] 3", 1, "no JSON: Extra data at column 8"),
        ('{"a": {\n"b": 1,\n"c": 2,\n"b": 3}}', 4, "'b' is there twice, first on line 2"),
        ("[" * 100_000, 1, "no JSON that can be read"),
        ("9" * 10_000, 1, "no JSON that can be read"),
        ("\ufeff{}", 1, "no JSON:"),
        ("[\nNaN]", 2, "no JSON: NaN is no number"),
        ("-Infinity", 1, "no JSON: -Infinity is no number"),
    ],
)
def test_what_is_none(text: str, line: int, what: str) -> None:
    with pytest.raises(JsonFault) as caught:
        parse(text)
    assert (caught.value.line, caught.value.what[: len(what)]) == (line, what)
