# SPDX-License-Identifier: Apache-2.0

"""A model's names as text that is safe to show: on one line, without control characters, of bounded length."""

from __future__ import annotations

import unicodedata

from poolgrad_lowering.diagnostics.printable import printable

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
    taken, used = 0, 0
    while taken < len(text) and used + _width(text[taken]) <= limit:
        used += _width(text[taken])
        taken += 1
    return text[:taken]


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
