# SPDX-License-Identifier: Apache-2.0

"""The index page of a folder of models: totals by refusal code, and a line per model with a link to its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from poolgrad_lowering.diagnostics.advice import ADVICE
from poolgrad_lowering.diagnostics.codes import DESCRIPTIONS, Code
from poolgrad_lowering.diagnostics.counted import counted
from poolgrad_lowering.html_report.markup import Child, Markup, element
from poolgrad_lowering.html_report.page import document
from poolgrad_lowering.html_report.tables import code, table
from poolgrad_lowering.html_report.text import shown
from poolgrad_lowering.report import Report


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
        f"{counted(len(rows), 'model')}, {failed} failed; {counted(lowered, 'candidate')} lowered, "
        f"{refused.total()} refused"
    )
    return document(
        f"{shown(folder)}: max-pool gradients",
        element("header", element("h1", shown(folder)), element("p", totals)),
        element("main", _refused(refused), _models(rows)),
    )


def _models(rows: Sequence[IndexRow]) -> Markup:
    header = ("model", "lowered", "refused", "remarks")
    return element("section", element("h2", "Models"), table("Models", header, map(_model, rows), stacked=True))


def _model(row: IndexRow) -> tuple[Child, ...]:
    if row.report is None:
        return code(shown(row.path)), "–", "–", shown(row.error or "")
    link = element("a", shown(row.path), href=quote(row.page))
    remarks = row.error or ", ".join(note.code for note in row.report.notes)
    return link, len(row.report.lowered), len(row.report.refused), shown(remarks)


def _refused(counts: Counter[str]) -> Markup | str:
    if not counts:
        return ""
    rows = [(code(name), count, DESCRIPTIONS[Code(name)], ADVICE[Code(name)]) for name, count in sorted(counts.items())]
    header = ("code", "candidates", "meaning", "what would have to change")
    return element("section", element("h2", "Refused"), table("Refused, by code", header, rows, stacked=True))
