# SPDX-License-Identifier: Apache-2.0

"""Texts of messages: what is safe to print, numbers and lists in correct English, suggestions, tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice


def printable(text: str) -> str:
    """Return the text on one line, with control characters, which names of a model may have, as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, whose plural ends in -s: `1 anchor`, `2 anchors`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def operator_text(domain: str, op_type: str) -> str:
    """Return an operator with its domain, which is left out if it is ONNX's own."""
    return f"{domain}.{op_type}" if domain else op_type


def either(names: Iterable[str]) -> str:
    """Return one or more names as alternatives: `a`, `a or b`, `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the closest known word, ignoring case, or the empty text if none is close."""
    import difflib  # noqa: PLC0415 - needed only for an error message

    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_folded, n=1)
    return asked(by_folded[close[0]]) if close else ""


def asked(name: str) -> str:
    """Return ` (did you mean …?)` with a name."""
    return f" (did you mean {name}?)"


_LEFT = ' style="text-align: left"'
"""An attribute: notebooks align cells to the right, and remove style sheets from some outputs."""

MAX_ROWS = 50
"""The number of rows that are shown; a last row says how many there are beside them."""


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a caption; all texts are made printable and escaped."""
    shown = [_row("td", row) for row in islice(rows, MAX_ROWS)]
    if len(rows) > MAX_ROWS:
        shown.append(_row("td", [f"and {len(rows) - MAX_ROWS} more"]))
    head = [_row("th", header)] if rows else []
    return f"<table><caption{_LEFT}>{_text(caption)}</caption>{''.join([*head, *shown])}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}{_LEFT}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    from html import escape  # noqa: PLC0415 - needed only in a notebook

    return escape(printable(text))


def with_layers(
    layers: Sequence[str | None], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and rows with a column for `layers`, one of each row, in front; as they are if all are None."""
    if not any(layers):
        return header, rows
    return ("layer", *header), [(layer or "", *row) for layer, row in zip(layers, rows, strict=True)]
