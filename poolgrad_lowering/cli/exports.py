# SPDX-License-Identifier: Apache-2.0

"""What the commands that export a model for CANN share: arguments, and how the result is printed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from poolgrad_lowering.cli.arguments import add_in_place, add_limits, add_target
from poolgrad_lowering.cli.console import print_error, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.streams import model_file

if TYPE_CHECKING:
    from poolgrad_lowering.diagnostics.obstacles import NodeObstacle
    from poolgrad_lowering.report.report import Report
    from poolgrad_lowering.verification.result import Verification


class ExportReport(Protocol):
    """The report of an export."""

    @property
    def lowering(self) -> Report:
        """The report of the lowering before the export."""

    @property
    def obstacles(self) -> tuple[NodeObstacle, ...]:
        """What is left that CANN refuses or changes."""

    @property
    def converts(self) -> bool:
        """Whether the model is written without --force."""

    def to_json(self) -> str:
        """Return the report as JSON text."""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the model, --output and --in-place."""
    parser.add_argument("model", type=model_file, metavar="IN.onnx", help="the model, original or lowered")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="where to write it")
    add_in_place(parser)


def add_export(parser: argparse.ArgumentParser, *, force: str) -> None:
    """Add the arguments behind those of one command alone. `force` is the help of --force."""
    parser.add_argument("--force", action="store_true", help=force)
    parser.add_argument("--verify", action="store_true", help="exit 1 and write no model if the result is not proven")
    parser.add_argument("--report", type=Path, metavar="REPORT.json", help="write the report as JSON")
    parser.add_argument(
        "--copy-external",
        action="store_true",
        help="copy the external data that the exported model needs into the output's folder",
    )
    add_target(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_limits(parser)


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
