# SPDX-License-Identifier: Apache-2.0

"""What the commands that export a model for CANN share: arguments, and how the result is printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from poolgrad_lowering.cli.arguments import add_limits, add_shared, limits, require_other_output
from poolgrad_lowering.cli.console import print_error, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.streams import model_file

if TYPE_CHECKING:
    from poolgrad_lowering.diagnostics.obstacles import NodeObstacle
    from poolgrad_lowering.entry.exports import ExportReport
    from poolgrad_lowering.verification.result import Verification


R = TypeVar("R", bound="ExportReport")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the model, --output and --in-place."""
    parser.add_argument("model", type=model_file, metavar="IN.onnx", help="the model, original or lowered")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="where to write it")
    add_shared(parser, "--in-place")


def add_export(parser: argparse.ArgumentParser, *, force: str) -> None:
    """Add the arguments behind those of one command alone. `force` is the help of --force."""
    parser.add_argument("--force", action="store_true", help=force)
    add_shared(parser, "--verify")
    parser.add_argument("--report", type=Path, metavar="REPORT.json", help="write the report as JSON")
    add_shared(parser, "--copy-external", "--target")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_limits(parser)


def export(export_file: Callable[..., R], options: argparse.Namespace, **more: Any) -> tuple[R, list[Verification]]:
    """Export the model as the options say, with `more` arguments; return the report, and the proof if there is one."""
    require_other_output(options)
    proofs: list[Verification] = []
    report = export_file(
        options.model,
        options.output,
        target=options.target,
        force=options.force,
        verify=options.verify,
        on_proven=proofs.append,
        report_path=options.report,
        copy_external=options.copy_external,
        limits=limits(options),
        **more,
    )
    return report, proofs


def print_export(
    report: ExportReport,
    options: argparse.Namespace,
    proofs: Sequence[Verification],
    *,
    written: Sequence[str],
    refused: str,
) -> ExitCode:
    """Print the result of an export, then that of the lowering before it, and return the exit code.

    `written` are lines about a model that converts, `refused` says why one does not.
    """
    from poolgrad_lowering.cli.report_text import print_proofs, print_report, print_warnings  # noqa: PLC0415 - `--help` must not load onnx

    print_warnings(report.lowering, options)
    if options.json:
        print(report.to_json(), end="")
    elif not options.quiet:
        if report.converts:
            print_proofs(proofs, options)
            for line in written:
                print_line(line)
        _print_obstacles(report.obstacles)
        print_report(report.lowering)
    if report.converts:
        return ExitCode.DONE
    outcome = "the model is written as --force says" if options.force else "no model written (--force writes it)"
    print_error(f"{refused}; {outcome}")
    return ExitCode.FAILED


def _print_obstacles(obstacles: Sequence[NodeObstacle]) -> None:
    """Print a table of the obstacles and what to do about each kind; nothing if there are none."""
    if obstacles:
        rows = [(o.node or "the model", o.operator, f"{o.code}: {o.reason}") for o in obstacles]
        print_table(("node", "operator", "obstacle"), rows)
    for code, advice in {obstacle.code: obstacle.advice for obstacle in obstacles}.items():
        print_line(f"{code}: {advice}")
