# SPDX-License-Identifier: Apache-2.0

"""HTML and SVG text. Every string that is not `Markup` is made printable and escaped.

A model's names are shown on one line, without control characters, of bounded length.
"""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import accumulate

from poolgrad_lowering.model.diagnostics.text import printable

MAX_NAME = 300
"""The number of characters of a name that are shown; a longer name is cut and its length added."""

_ELLIPSIS = "…"


def shown(text: str, limit: int = MAX_NAME) -> str:
    """The printable text; a text of more than `limit` characters is cut and its length added."""
    if len(text) <= limit:
        return printable(text)
    return f"{printable(text[:limit])}{_ELLIPSIS} ({len(text)} characters)"


def columns(text: str) -> int:
    """The number of columns of a printable text in a fixed-width font; wide East Asian characters take two."""
    return sum(map(_width, text))


def fitted(text: str, limit: int) -> str:
    """The printable text in at most `limit` columns. The middle is cut, because names differ mostly at their ends."""
    text = printable(text[: 4 * limit] + text[-4 * limit :] if len(text) > 8 * limit else text)
    if columns(text) <= limit:
        return text
    half = (limit - 1) // 2
    return _within(text, limit - 1 - half) + _ELLIPSIS + _within(text[::-1], half)[::-1]


def _within(text: str, limit: int) -> str:
    return text[: sum(used <= limit for used in accumulate(map(_width, text)))]


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Markup(str):
    """Text that is markup already and is not escaped."""

    __slots__ = ()


Child = str | int
Setting = Child | float | bool | None
_VOID = frozenset(("br", "hr", "input", "meta"))


def element(tag: str, *children: Child, **attributes: Setting) -> Markup:
    """An element with children; children that are not `Markup` are text.

    In attribute names a trailing underscore is removed and other underscores become hyphens. True gives an attribute
    without a value, False and None give no attribute. Floats are written as `number` does.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    opened = f"<{tag}{written}>"
    return Markup(opened if tag in _VOID else f"{opened}{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """The concatenated children, without an element around them."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def _text(text: Child) -> str:
    return escape(printable(str(text)))


def _attribute(name: str, value: Setting) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    text = number(value) if isinstance(value, float) else str(value)
    return f" {name}" if value is True else f' {name}="{_text(text)}"'


def number(value: float) -> str:
    """A coordinate with at most one decimal, so that the text is the same on every machine; never −0."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
