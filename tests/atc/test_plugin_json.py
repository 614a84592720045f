# SPDX-License-Identifier: Apache-2.0

"""The plugin's reader of JSON against Python's, and with texts that are no JSON."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.harness.atc.plugin_parts import is_error, run

GREATEST_DEPTH = 64  # kGreatestDepth
ATTRIBUTES = (
    b'{"attribute":[{"name":"ceil_mode","type":2},{"name":"data_format","s":"NCDHW","type":3},\n'
    b'  {"ints":[1,-3, 9223372036854775807],"name":"ks\\u00efze\\t\\ud83d\\ude00","type":7},'
    b'{"f":"1.5","x":-0.25e+3,"t":true,"n":null}]}'
)


def literal(value: Any) -> Any:
    """A value of Python's json as the program writes it: texts as UTF-8, reals as their digits."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, dict):
        return {literal(key): literal(item) for key, item in value.items()}
    return value


def expected(text: bytes) -> Any:
    return literal(json.loads(text, parse_float=lambda digits: ("real", digits.encode())))


def read(*texts: bytes) -> list[Any]:
    return run("json", texts=texts)


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b" true ",
        b"\t[false , 0]\r\n",
        b"-9223372036854775808",
        b"[]",
        b"{}",
        b'""',
        b'{"":{"a":[[],{}]}}',
        b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
        b'"\\u0000\\u007f\\u0080\\u07FF\\u0800\\uffff\\uD800\\uDC00\\udbff\\udfff"',
        '"é€😀"'.encode(),
        b"[0.0,1e5,-1E-2,10.25e+3]",
        ATTRIBUTES,
    ],
)
def test_json_is_read_as_python_reads_it(text: bytes) -> None:
    assert read(text) == [expected(text)]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"  ",
        b"nul",
        b"truetrue",
        b"1 2",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1}",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b"{1:2}",
        b'{"a":1,"a":2}',
        b"01",
        b"-",
        b"+1",
        b"1.",
        b".5",
        b"1e",
        b"0x10",
        b"NaN",
        b"Infinity",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"9" * 100_000,
        b'"',
        b'"\n"',
        b'"a\x00b"',
        b"[1]\x00",
        b'"\\x41"',
        b'"\\',
        b'"\\\x00"',
        b'"\\u12"',
        b'"\\u12\x00\x00"',
        b'"\\u12g4"',
        b'"\\ud800"',
        b'"\\ud800\\n"',
        b'"\\ud800\\ud800"',
        b'"\\udc00"',
        b"'a'",
        b"\xef\xbb\xbf1",
    ],
)
def test_other_texts_are_errors(text: bytes) -> None:
    [answer] = read(text)
    assert is_error(answer)
    assert answer[1].startswith(b"not JSON: ")


def test_an_error_says_what_and_where() -> None:
    assert read(b'{"a": [1, 2') == [("error", b"not JSON: no ',' or end after an item at byte 11")]


@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_is_limited(begin: bytes, end: bytes) -> None:
    legal = begin * GREATEST_DEPTH + b"0" + end * GREATEST_DEPTH
    answers = read(legal, begin + legal + end, begin * 1_000_000)
    assert answers[0] == expected(legal)
    assert all(answer == ("error", answer[1]) and b"too many levels" in answer[1] for answer in answers[1:])


def test_every_shorter_text_is_an_error() -> None:
    assert [
        end
        for end, answer in enumerate(read(*(ATTRIBUTES[:end] for end in range(len(ATTRIBUTES)))))
        if not is_error(answer)
    ] == []


def test_changed_bytes_are_read_as_python_reads_them_or_are_errors() -> None:
    """Python's reader takes some texts that this one does not: NaN, integers of any size, repeated keys, half pairs."""
    source = random.Random(16)
    texts = []
    for _ in range(5000):
        changed = bytearray(ATTRIBUTES)
        for _ in range(source.randint(1, 3)):
            changed[source.randrange(len(changed))] = source.choice(
                b'"\\{}[]:,0-eE.untf\x00\x80\xff ' + bytes([source.randrange(256)])
            )
        texts.append(bytes(changed))
    answers = read(*texts)
    read_ones = [(text, answer) for text, answer in zip(texts, answers, strict=True) if not is_error(answer)]
    assert 100 < len(read_ones) < 4900
    for text, answer in read_ones:
        if all(letter < 0x80 for letter in text):
            assert answer == expected(text), text
