# SPDX-License-Identifier: Apache-2.0

"""Tables of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.report.drawing.markup import MAX_NAME, Child, Markup, element, shown

_PROSE = 40
"""A cell with more characters of plain text is a sentence, whose lines may break."""


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Child]],
    ids: Iterable[str] = (),
    *,
    stacked: bool = True,
    captioned: bool = True,
) -> Markup:
    """A table in a scrolling frame; empty without rows. The first cell of a row is its heading, `ids` are ids of rows.

    Without `captioned`, a heading above the table says what the caption says, which then only labels the frame.
    In a narrow window, a `stacked` table shows the cells of a row one below the other, each with its column's name.
    """
    row_ids = list(ids)
    labels = header[1:] if stacked else [None] * (len(header) - 1)
    body = []
    for number, (first, *rest) in enumerate(rows):
        cells = [
            element("td", cell, class_="prose" if _is_prose(cell) else None, data_label=label)
            for cell, label in zip(rest, labels, strict=True)
        ]
        row_id = row_ids[number] if row_ids else None
        body.append(element("tr", element("th", first, scope="row"), *cells, id=row_id))
    if not body:
        return Markup()
    head = element("tr", *(element("th", column, scope="col") for column in header))
    titles = [element("caption", caption)] if captioned else []
    parts = (*titles, element("thead", head), element("tbody", *body))
    written = element("table", *parts, class_="stacked" if stacked else None)
    return scrolled(written, caption)


def _is_prose(cell: Child) -> bool:
    return not isinstance(cell, Markup) and len(str(cell)) > _PROSE


def refusals(counts: Mapping[str, int], ids: Iterable[str] = (), *, captioned: bool = True) -> Markup:
    """The table of refused anchors by code, with meanings and advice."""
    rows = [(code(name), count, Code(name).meaning, Code(name).advice) for name, count in counts.items()]
    header = ("code", "anchors", "meaning", "what would have to change")
    return table("Refused, by code", header, rows, ids, captioned=captioned)


def scrolled(content: Markup, label: str) -> Markup:
    """Content that may be wider than the page, in a frame that scrolls and can be focused by keyboard."""
    return element("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def name(text: str) -> Markup:
    """A name from a model, with a copy button if it is shown completely."""
    return element("code", shown(text), class_="copied" if len(text) <= MAX_NAME else "cut")


def code(text: str) -> Markup:
    """A name or value from a model, as code."""
    return element("code", text)
