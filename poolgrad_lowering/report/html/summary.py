# SPDX-License-Identifier: Apache-2.0

"""The summary section of the page: totals, forms, refusals by code with advice, and work left to other providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.patterns import all_forms
from poolgrad_lowering.report.drawing.markup import Child, Markup, element, shown
from poolgrad_lowering.report.html.record import Recorder
from poolgrad_lowering.report.html.tables import code, refusals, table
from poolgrad_lowering.report.report import Report


def summary_section(report: Report, recorder: Recorder) -> Markup:
    """All totals of a report. The wall time is left out, so that the page is the same for every run."""
    tables = _forms(report), *_of_nodes(report, recorder)
    return element("section", element("h2", "Summary"), *_notes(report), _figures(report), *tables)


def _notes(report: Report) -> Iterator[Markup]:
    """The notes on the model as a whole, those that are warnings first."""
    for heading, style, warning in (("Warning", "notes warnings", True), ("Note", "notes", False)):
        if texts := [shown(note.text, 600) for note in report.notes if note.warning is warning]:
            lines = (element("p", element("strong", f"{heading}: "), text) for text in texts)
            yield element("div", *lines, class_=style)


def _figures(report: Report) -> Markup:
    saved = report.bytes_before - report.bytes_after
    moved = sum(anchor.forward_op is not None for anchor in report.lowered)
    figures = (
        ("anchors", str(len(report.anchors)), "nodes that could be gradients of pools"),
        ("lowered", str(len(report.lowered)), f"{moved} with their forward pool"),
        ("refused", str(len(report.refused)), "left unchanged"),
        *([("unrelated", str(len(report.unrelated)), "no gradients of pools")] if report.unrelated else []),
        ("nodes", f"{report.nodes_before:,} → {report.nodes_after:,}", "without function bodies"),
        ("bytes saved" if saved >= 0 else "bytes added", f"{abs(saved):,}", f"of {report.bytes_before:,}"),
    )
    rows = [(name, element("dt", name), element("dd", value, element("small", note))) for name, value, note in figures]
    return element("dl", *(element("div", *row, class_=name.split()[0]) for name, *row in rows), class_="figures")


def _forms(report: Report) -> Markup:
    """The table of anchors by the form that recognised them."""
    lowered, refused = (Counter(anchor.pattern for anchor in each) for each in (report.lowered, report.refused))
    summaries = {pattern.name: pattern.summary for pattern in all_forms()}
    names = sorted({anchor.pattern for anchor in report.anchors if anchor.pattern})
    rows = [(code(shown(name)), lowered[name], refused[name], shown(summaries.get(name, ""))) for name in names]
    ids = [f"form-{name}" for name in names]
    return table("Forms of gradients", ("form", "lowered", "refused", "description"), rows, ids)


def _of_nodes(report: Report, recorder: Recorder) -> Iterator[Markup]:
    """The tables of what was refused or replaced, and of what does not run on the NPU or could not be used."""
    if counts := report.refused_by_code:
        yield refusals(counts, [f"code-{name}" for name in counts])
    if found := report.standard:
        rows = [(code(shown(operator)), number) for operator, number in sorted(found.replaced.items())]
        yield table("Operators of training runtimes, replaced by standard ONNX", ("operator", "nodes"), rows)
        left = [(code(shown(one.node)), code(shown(one.operator)), f"{one.code}: {one.reason}") for one in found.left]
        yield table("Operators of training runtimes without a definition", ("node", "operator", "reason"), left)
    header = ("kind", "nodes", "reason")
    yield table("Left to the CPU or another execution provider", header, _elsewhere(report, recorder))
    plugins = [(code(shown(plugin.name)), shown(plugin.reason, 600)) for plugin in report.broken_plugins]
    yield table("Forms of other packages that could not be used", ("form", "reason"), plugins)
    warnings = [(code(shown(one.file)), shown(one.tensor), shown(one.reason, 600)) for one in report.warnings]
    yield table("Missing external data", ("file", "tensor without data", "reason"), warnings)


def _elsewhere(report: Report, recorder: Recorder) -> Iterator[tuple[Child, ...]]:
    """The nodes of pools and gradients that do not run on the NPU."""
    if report.refused:
        yield "refused anchors", len(report.refused), "by code, above"
    kept_pools = Counter(anchor.forward_code for anchor in report.lowered if anchor.forward_code)
    for name, count in sorted(kept_pools.items()):
        yield element("span", "forward pools, ", code(name)), count, Code(name).meaning
    for op_type, count in sorted(recorder.written.items()):
        if op_type != "Constant":
            yield code(op_type), count, "adapts operands or results of the lowered nodes"
