# SPDX-License-Identifier: Apache-2.0

"""The index page of a folder of models: a line per model with a bar and a link to its page, and totals by code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.report.drawing.markup import Child, Markup, element, shown
from poolgrad_lowering.report.html.page import document
from poolgrad_lowering.report.html.tables import code, refusals, table
from poolgrad_lowering.report.report import Report

_WIDTH, _HEIGHT = 120, 10
"""Pixels: the size of a bar."""


class IndexRow(NamedTuple):
    """A model of the index: its path, the path of its page relative to the index, and its report or its error."""

    path: str
    page: str
    report: Report | None
    error: str | None


def index_page(folder: str, rows: Sequence[IndexRow]) -> bytes:
    """The index of the pages of all models in a folder, as UTF-8. `folder` is the heading."""
    failed = sum(row.report is None for row in rows)
    lowered = sum(len(row.report.lowered) for row in rows if row.report)
    refused = Counter(anchor.code for row in rows if row.report for anchor in row.report.refused if anchor.code)
    totals = (
        f"{counted(len(rows), 'model')}, {failed} failed; {counted(lowered, 'anchor')} lowered, "
        f"{refused.total()} refused"
    )
    header = ("model", "share", "lowered", "refused", "remarks")
    models = table("Models", header, map(_model, rows), captioned=False)
    sections = [element("section", element("h2", "Models"), models)]
    if refused:
        codes = refusals(dict(sorted(refused.items())), captioned=False)
        sections.append(element("section", element("h2", "Refused, by code"), codes))
    head = element("header", element("h1", shown(folder)), element("p", totals))
    return document(f"{shown(folder)}: gradients of pools", head, element("main", *sections))


def _model(row: IndexRow) -> tuple[Child, ...]:
    if row.report is None:
        return code(shown(row.path)), "", "–", "–", shown(row.error or "")
    link = element("a", shown(row.path), href=quote(row.page))
    remarks = row.error or ", ".join(note.code for note in row.report.notes)
    lowered, refused = len(row.report.lowered), len(row.report.refused)
    return link, _bar(lowered, refused), lowered, refused, shown(remarks)


def _bar(lowered: int, refused: int) -> Markup | str:
    """A bar with the share of the lowered anchors and, after it, that of the refused ones; empty without any."""
    if not lowered + refused:
        return ""
    width = _WIDTH * lowered / (lowered + refused)
    parts = [
        element("rect", x=f"{x:g}", width=f"{length:g}", height=_HEIGHT, class_=kind)
        for kind, x, length in (("lowered", 0, width), ("refused", width, _WIDTH - width))
        if length
    ]
    title = element("title", f"{lowered} lowered, {refused} refused")
    return element("svg", title, *parts, role="img", width=_WIDTH, height=_HEIGHT, class_="bar")
