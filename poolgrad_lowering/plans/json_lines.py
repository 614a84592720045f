"""JSON whose values know the line they stand on, so that what is wrong with one can be said where it is.

Knows nothing of what the values mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""What Python's parser takes beyond RFC 8259."""


class JsonFault(Exception):  # noqa: N818 - a fault of a text, which becomes the error of who reads it
    """What is wrong with a text, and on which line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line = line
        self.what = what


@dataclass(frozen=True)
class Located:
    """A value and its line, counted from 1. Lists hold such values, objects pairs of a name's line and such a value."""

    value: Any
    line: int


def parse(text: str) -> Located:
    """The value of a JSON text (RFC 8259, names in an object unique). Raises `JsonFault`."""
    try:
        json.loads(text)
        tokens = _tokens(text)
        return _value(next(tokens), tokens)
    except json.JSONDecodeError as error:
        raise JsonFault(error.lineno, f"no JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise JsonFault(1, f"no JSON that can be read: {error}") from error


def _tokens(text: str) -> Iterator[Located]:
    line, end = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", end, found.start())
        end = found.start()
        yield Located(found[0], line)


def _value(token: Located, tokens: Iterator[Located]) -> Located:
    """The value that begins with a token, in a text that is known to be JSON."""
    if token.value == "{":
        return Located(_members(tokens), token.line)
    if token.value == "[":
        return Located(_elements(tokens), token.line)
    if token.value in _NO_NUMBERS:
        raise JsonFault(token.line, f"no JSON: {token.value} is no number")
    return Located(json.loads(token.value), token.line)


def _members(tokens: Iterator[Located]) -> dict[str, tuple[int, Located]]:
    """The members of an object: the line of each name, and its value."""
    members: dict[str, tuple[int, Located]] = {}
    for token in tokens:
        if token.value == "}":
            break
        if token.value == ",":
            continue
        name = json.loads(token.value)
        if name in members:
            raise JsonFault(token.line, f"'{name}' is there twice, first on line {members[name][0]}")
        next(tokens)  # the colon
        members[name] = token.line, _value(next(tokens), tokens)
    return members


def _elements(tokens: Iterator[Located]) -> list[Located]:
    elements: list[Located] = []
    for token in tokens:
        if token.value == "]":
            break
        if token.value != ",":
            elements.append(_value(token, tokens))
    return elements
