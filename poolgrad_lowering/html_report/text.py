"""A model's names as text that is safe to show: on one line, without control characters, not endless."""

from __future__ import annotations

import unicodedata

from poolgrad_lowering.diagnostics.printable import printable

MAX_NAME = 300
"""Characters of a name that are shown; of longer ones the length is told."""

_ELLIPSIS = "…"


def shown(text: str, limit: int = MAX_NAME) -> str:
    """The text as a page has it: printable, cut behind `limit` characters with its length told."""
    if len(text) <= limit:
        return printable(text)
    return f"{printable(text[:limit])}{_ELLIPSIS} ({len(text)} characters)"


def columns(text: str) -> int:
    """How many columns of a fixed-width font a printable text takes, East Asian characters two."""
    return sum(map(_width, text))


def fitted(text: str, limit: int) -> str:
    """A printable text in at most `limit` columns: what distinguishes names is at either end, so the middle goes."""
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
