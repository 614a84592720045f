# SPDX-License-Identifier: Apache-2.0

"""The page of a lowering, and the index of the pages of a folder of models.

A page is one self-contained HTML file, with the same bytes for the same lowering, complete without its script. The
index has a line per model with a bar and a link to its page, and totals by code.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from urllib.parse import quote

from poolgrad_lowering.dialect.targets import TARGETS
from poolgrad_lowering.model.diagnostics.diagnostic import Status, reading_order
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.model.diagnostics.version import __version__
from poolgrad_lowering.report.drawing.markup import Child, Markup, element, shown
from poolgrad_lowering.report.drawing.svg import stylesheet
from poolgrad_lowering.report.html.anchor import anchor_section
from poolgrad_lowering.report.html.places import places_section
from poolgrad_lowering.report.html.record import MAX_DRAWN, Recorder
from poolgrad_lowering.report.html.summary import summary_section
from poolgrad_lowering.report.html.tables import code, refusals, table
from poolgrad_lowering.report.report import FileResult, Report

PAGE_SIZE = 50
"""The number of anchors on a page of the list, in a browser that runs the script."""


def html_report(report: Report, recorder: Recorder, model_name: str) -> bytes:
    """The page of a lowering that `recorder` observed, as UTF-8. `model_name` is the heading."""
    pairs = zip(report.anchors, recorder.anchors, strict=True)
    anchors = sorted(pairs, key=lambda pair: reading_order(pair[0].status))
    sections = [anchor_section(number, *anchor) for number, anchor in enumerate(anchors, 1)]
    return _document(
        f"{shown(model_name)}: gradients of pools for {report.target}",
        element("a", "Skip to the anchors", href="#anchors", class_="skip"),
        element(
            "header",
            element("h1", shown(model_name)),
            element("p", f"Gradients of pools lowered for {TARGETS[report.target].title} (", code(report.target), ")"),
        ),
        element(
            "main", summary_section(report, recorder), places_section(recorder.placement), _anchors(report, sections)
        ),
        script=_asset("script.js"),
    )


def _document(title: str, *content: Markup, script: str = "") -> bytes:
    """A self-contained page with this title and content, as UTF-8."""
    style = stylesheet() + _asset("style.css")
    # Nothing is loaded, and only the page's own script runs, whatever names contain.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    footer = element("footer", f"poolgrad-lowering {__version__}")
    body = element("body", *content, footer, element("script", Markup(script)) if script else "")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    page = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    return page.encode()


def _anchors(report: Report, sections: Sequence[Markup]) -> Markup:
    heading = element("h2", "Anchors", id="anchors")
    if not sections:
        return element("section", heading, element("p", "No node of the model could be the gradient of a pool."))
    text = f"Graphs are drawn for the first {MAX_DRAWN} of {len(sections)} anchors."
    limit = element("p", text, class_="note") if len(sections) > MAX_DRAWN else ""
    above, below = _pager("Pages of the list"), _pager("Pages of the list, after it")
    return element("section", heading, limit, _filter(report), above, *sections, below)


def _filter(report: Report) -> Markup:
    """The form that filters the list. It is hidden until the page's script runs."""
    forms = sorted({anchor.pattern for anchor in report.anchors if anchor.pattern})
    return element(
        "form",
        element("label", "Search ", element("input", type="search", name="text", placeholder="name, scope, value")),
        _choice("status", "Status", [status.value for status in Status]),
        _choice("form", "Form", forms),
        _choice("code", "Code", sorted({anchor.code for anchor in report.anchors if anchor.code})),
        element("button", "Open all shown", type="button", class_="open"),
        element("button", "Close all", type="button", class_="close"),
        element("output", name="count", aria_live="polite"),
        id="filter",
        data_size=PAGE_SIZE,
        hidden=True,
        role="search",
    )


def _pager(label: str) -> Markup:
    """The controls that turn the pages of the list. They are hidden until the script finds more than one page."""
    back, forward = (element("button", text, type="button") for text in ("Previous", "Next"))
    pages = element("select", aria_label="Anchors shown")
    return element("nav", back, pages, forward, class_="pager", hidden=True, aria_label=label)


def _choice(name: str, label: str, values: Sequence[str]) -> Markup:
    options = [element("option", "all", value=""), *(element("option", shown(value), value=value) for value in values)]
    return element("label", f"{label} ", element("select", *options, name=name))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


_WIDTH, _HEIGHT = 120, 10
"""Pixels: the size of a bar."""


def index_page(folder: str, rows: Sequence[FileResult]) -> bytes:
    """The index of the pages of all models in a folder, as UTF-8. `folder` is the heading.

    The page of a model has the model's path with `.html` behind it, relative to the index.
    """
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
    return _document(f"{shown(folder)}: gradients of pools", head, element("main", *sections))


def _model(row: FileResult) -> tuple[Child, ...]:
    if row.report is None:
        return code(shown(row.path)), "", "–", "–", shown(row.error or "")
    link = element("a", shown(row.path), href=quote(f"{row.path}.html"))
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
