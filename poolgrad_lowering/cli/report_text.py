"""A report as lines for people."""

from __future__ import annotations

import argparse

from poolgrad_lowering.cli.console import complain, print_table, say
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.diagnostics.printable import printable
from poolgrad_lowering.report import AnchorReport, Report


def print_warnings(report: Report, options: argparse.Namespace, model: str = "") -> None:
    """Print a line for each warning to standard error, after the model's name if it is given; none with --quiet."""
    for warning in () if options.quiet else report.warnings:
        complain(": ".join(filter(None, ("warning", printable(model), warning.tensor, warning.reason))))


def print_report(report: Report) -> None:
    """A row per anchor, and the sums."""
    if report.anchors:
        print_table(("anchor", "status", "what"), [_row(anchor) for anchor in report.anchors])
    say(
        f"target {report.target}: {len(report.anchors)} anchors, {len(report.lowered)} lowered, "
        f"{len(report.refused)} refused; nodes {report.nodes_before} → {report.nodes_after}, "
        f"bytes {report.bytes_before} → {report.bytes_after}; {report.seconds:.3f} s"
    )


def print_outcome(report: Report, options: argparse.Namespace) -> int:
    """What a lowering did, as its options want it printed; its exit code."""
    print_warnings(report, options)
    if options.json:
        print(report.to_json(), end="")
    elif not options.quiet:
        print_report(report)
    if options.strict and report.refused:
        complain(f"strict: {len(report.refused)} anchors refused, no model written")
        return ExitCode.FAILED
    if not (options.json or options.quiet):
        say(f"wrote {options.output}")
    return ExitCode.DONE


def _row(anchor: AnchorReport) -> tuple[str, str, str]:
    place = anchor.name if anchor.scope == "main" else f"{anchor.name} ({anchor.scope})"
    if anchor.status == "lowered":
        attributes = anchor.attributes or {}
        shown = " ".join(f"{name}={_compact(value)}" for name, value in attributes.items())
        return place, anchor.status, f"{anchor.op} {shown}".rstrip() + _pool(anchor)
    return place, anchor.status, f"{anchor.code}: {anchor.reason}"


def _pool(anchor: AnchorReport) -> str:
    """What became of the forward pool; nothing where it was not asked for."""
    if anchor.forward_op:
        return f"; pool: {anchor.forward_op}"
    return f"; pool stays: {anchor.forward_reason}" if anchor.forward_reason else ""


def _compact(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
