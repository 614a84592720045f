# SPDX-License-Identifier: Apache-2.0

"""Tables for people: small ones in HTML, as notebooks show them, and the column of layers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice

from poolgrad_lowering.model.diagnostics.text import printable

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
    return escape(printable(text))


def with_layers(
    layers: Sequence[str | None], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and rows with a column for `layers`, one of each row, in front; as they are if all are None."""
    if not any(layers):
        return header, rows
    return ("layer", *header), [(layer or "", *row) for layer, row in zip(layers, rows, strict=True)]
