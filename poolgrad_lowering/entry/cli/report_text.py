# SPDX-License-Identifier: Apache-2.0

"""Prints a report as text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poolgrad_lowering.entry.cli.console import print_error, print_line, print_table
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.streams import STREAM
from poolgrad_lowering.model.diagnostics.diagnostic import Status
from poolgrad_lowering.model.diagnostics.text import counted, operator_text, printable, with_layers
from poolgrad_lowering.report.report import AnchorReport, Report

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification


def print_warnings(report: Report, options: argparse.Namespace, model: str = "") -> None:
    """Print each warning to standard error, after the model's name if given; nothing with --quiet."""
    texts = [(warning.tensor, warning.reason) for warning in report.warnings]
    texts += [("", note.text) for note in report.notes if note.warning]
    for tensor, text in () if options.quiet else texts:
        print_error(": ".join(filter(None, ("warning", printable(model), tensor, text))))


def print_defects(*reports: Report) -> ExitCode:
    """Say on how many anchors of the reports a form failed, and return the exit code: DONE if on none."""
    if not (count := sum(len(report.defects) for report in reports)):
        return ExitCode.DONE
    print_error(f"error: a form failed on {counted(count, 'anchor')}: this is a defect, please report the traceback")
    return ExitCode.DEFECT


def print_report(report: Report) -> None:
    """Print what kind of model it is, a row for each anchor, the operators that change or are left, and the totals."""
    for note in report.notes:
        if not note.warning:
            print_line(f"note: {note.text}")
    if report.anchors:
        anchors = report.for_people
        rows = [_row(anchor) for anchor in anchors]
        print_table(*with_layers([anchor.layer for anchor in anchors], ("anchor", "status", "what"), rows))
    if changed := [count for count in report.operators if count.before != count.after]:
        rows = [(operator_text(c.domain, c.op_type), str(c.before), str(c.after)) for c in changed]
        others = sum(count.before for count in report.operators if count.before == count.after)
        print_table(("operator", "before", "after"), [*rows, ("all others", str(others), str(others))])
    if (found := report.standard) is not None:
        if found.left:
            rows = [(node.node, node.operator, f"{node.code}: {node.reason}") for node in found.left]
            print_table(("node left", "operator", "why"), rows)
        print_line(f"{found.text}; {_WAYS_OF_STANDARD[bool(found.left)]}")
    print_line(
        f"target {report.target}: {report.totals}, "
        f"bytes {report.bytes_before} → {report.bytes_after}; {report.seconds:.3f} s"
    )


_WAYS_OF_STANDARD = {
    False: "all operators of the model are ONNX's own, or the dialect's with their function bodies",
    True: "the model runs only in a runtime that has the operators left; docs/standard-operators.md has the codes",
}

_WAYS = {
    "provider": "runs in onnxruntime with the execution provider",
    "bodies": "runs in onnxruntime alone, by function bodies",
    "atc": "converts with ATC (`poolgrad export-atc`)",
    "cann": "runs beside onnxruntime's CANN provider",
}


def print_ways(report: Report) -> None:
    """Print a line for each way in which the lowered model can run, or why it cannot, and where its nodes then run."""
    for way in report.ways:
        doubt = f", but CANN's graph engine may refuse {way.doubt}" if way.doubt else ""
        print_line(f"{_WAYS[way.way]}: {f'yes{doubt}' if way.works else f'no, {way.reason}'}")
    if (found := report.placement) is None:
        return
    rows = [(count.title, str(count.nodes), found.share_of_bytes(count)) for count in found.places]
    print_table(("place beside the CANN provider", "nodes", "share of bytes"), rows)
    unknown = f"; {counted(found.unknown_sizes, 'tensor')} of unknown size" if found.unknown_sizes else ""
    print_line(
        f"{counted(found.sub_models, 'sub-model')} of the CANN provider, "
        f"{counted(found.copies, 'value')} copied between host and device inside a step{unknown}"
    )


def print_proofs(proofs: Sequence[Verification], options: argparse.Namespace) -> None:
    """With --verify, print what was proven of the models that are written."""
    if not options.verify:
        return
    from poolgrad_lowering.verification.result import proven_text  # noqa: PLC0415 - only for --verify

    for text in map(proven_text, proofs) if proofs else ("nothing was lowered, the model is its source",):
        print_line(f"proven: {text}")


def print_outcome(report: Report, proofs: Sequence[Verification], options: argparse.Namespace) -> ExitCode:
    """Print the result of a lowering as the options say, and return the exit code."""
    print_warnings(report, options)
    if options.json:
        print(report.to_json(), end="")
    elif not options.quiet:
        print_report(report)
    left = report.standard.left if report.standard is not None else ()
    if options.strict and (report.refused or left):
        undefined = f", {counted(len(left), 'node')} without a definition" if left else ""
        print_error(f"strict: {counted(len(report.refused), 'anchor')} refused{undefined}, no model written")
        return ExitCode.FAILED
    if not (options.json or options.quiet):
        print_proofs(proofs, options)
        written = "the model to standard output" if options.given_output == STREAM else options.output
        print_line(f"wrote {written}")
    return print_defects(report)


def _row(anchor: AnchorReport) -> tuple[str, str, str]:
    """Return site, status and what became of it: the operator, its forward pool, and the defaults of the proof."""
    if anchor.status != Status.LOWERED:
        return anchor.site, anchor.status, f"{anchor.code}: {anchor.reason}"
    parts = [str(anchor.op)]
    for name, value in (anchor.attributes or {}).items():
        parts.append(f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}")
    what = " ".join(parts)
    if anchor.forward_op:
        what += f"; pool: {anchor.forward_op}"
    elif anchor.forward_reason:
        what += f"; pool stays: {anchor.forward_reason}"
    if anchor.trusted_defaults:
        quoted = (f"'{name}'" for name in anchor.trusted_defaults)
        what += f"; trusts the default of {', '.join(quoted)}"
    return anchor.site, anchor.status, what
