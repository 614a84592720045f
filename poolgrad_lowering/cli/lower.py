# SPDX-License-Identifier: Apache-2.0

"""`poolgrad lower`: lowers a model, or every model in a folder, and writes the result."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.arguments import add_checks, add_limits, add_target, add_trust, limits, positive
from poolgrad_lowering.cli.console import print_error, print_json, print_line, print_result
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.diagnostics.errors import UsageError

if TYPE_CHECKING:
    from poolgrad_lowering.entry.folders import FileResult


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "lower",
        help="lower a model, or all models in a folder, and write the result",
        description="Lower every max-pooling gradient of a model that the target can run, and write the result. For a "
        "folder, lower every *.onnx file in it and its subfolders.",
        examples=(
            ("poolgrad lower training.onnx -o lowered.onnx", "for atlas-a2"),
            ("poolgrad lower training.onnx -o lowered.onnx --target Ascend950PR_9599", "for a SoC name"),
            ("poolgrad lower training.onnx -o lowered.onnx --plan plan.json", "by a plan (`poolgrad inspect --plan`)"),
            ("poolgrad lower models -o lowered --jobs 4 --report reports", "all models in a folder"),
        ),
    )
    parser.add_argument("model", type=Path, metavar="IN", help="the model, or a folder of models")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="where to write it; for a folder, a folder"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="REPORT.json",
        help="write the report as JSON; for a folder of models, a folder of reports",
    )
    parser.add_argument("--html", type=Path, metavar="REPORT.html", help="write the report as a page for a browser")
    add_checks(parser)
    parser.add_argument(
        "--copy-external",
        action="store_true",
        help="copy the external data that the lowered model needs into the output's folder",
    )
    add_target(parser)
    add_trust(parser)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--no-forward", action="store_true", help="do not lower forward pools")
    choice.add_argument("--plan", type=Path, metavar="PLAN.json", help="lower each site as this plan says")
    parser.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="for a folder: number of processes (default: one per CPU)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON; for a folder, all of them")
    add_limits(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    lowering = {
        "target": options.target,
        "forward": not options.no_forward,
        "trust_defaults": options.trust_defaults,
        "strict": options.strict,
        "verify": options.verify,
        "copy_external": options.copy_external,
        "limits": limits(options),
    }
    return (_lower_folder if options.model.is_dir() else _lower_file)(options, lowering)


def _lower_file(options: argparse.Namespace, lowering: dict[str, Any]) -> int:
    from poolgrad_lowering.cli.report_text import print_outcome  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.entry.files import lower_file  # noqa: PLC0415 - as above
    from poolgrad_lowering.plans.plan_file import read_plan  # noqa: PLC0415 - as above

    plan = None if options.plan is None else read_plan(options.plan)
    report = lower_file(
        options.model, options.output, plan=plan, report_path=options.report, html_path=options.html, **lowering
    )
    return print_outcome(report, options)


def _lower_folder(options: argparse.Namespace, lowering: dict[str, Any]) -> int:
    from poolgrad_lowering.cli.progress import ProgressBar  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.folders import lower_folder  # noqa: PLC0415 - as above

    for option, value in (("--plan", options.plan), ("--html", options.html)):
        if value is not None:
            raise UsageError(f"{option} is for one model, not for a folder")
    bar = ProgressBar(sys.stderr, quiet=options.quiet)

    def show(result: FileResult, done: int, total: int) -> None:
        bar.clear()
        _print_file(result, options)
        bar(done, total, result.path)

    results = lower_folder(
        options.model, options.output, jobs=options.jobs, report_folder=options.report, on_result=show, **lowering
    )
    return _print_summary(results, options)


def _print_file(result: FileResult, options: argparse.Namespace) -> None:
    """Print one line on a model's result; with --quiet or --json only errors, to standard error."""
    from poolgrad_lowering.cli.report_text import print_warnings  # noqa: PLC0415 - as above

    if result.report is not None:
        print_warnings(result.report, options, result.path)
    if result.error is not None and (options.quiet or options.json):
        print_error(f"failed: {result.path}: {result.error}")
    elif not (options.quiet or options.json):
        counts = result.report and f"{len(result.report.lowered)} lowered, {len(result.report.refused)} refused"
        print_result(result.path, "failed" if result.error else "written", result.error or counts or "")


def _print_summary(results: list[FileResult], options: argparse.Namespace) -> int:
    failed = sum(result.error is not None for result in results)
    reports = [result.report for result in results if result.report is not None]
    if options.json:
        files = [
            {"path": r.path, "error": r.error, "report": None if r.report is None else r.report.to_dict()}
            for r in results
        ]
        print_json({"files": files, "summary": {"files": len(results), "failed": failed}})
    elif not options.quiet:
        print_line(
            f"{len(results)} models, {len(results) - failed} written, {failed} failed; "
            f"{sum(len(report.lowered) for report in reports)} candidates lowered, "
            f"{sum(len(report.refused) for report in reports)} refused"
        )
    return ExitCode.FAILED if failed else ExitCode.DONE
