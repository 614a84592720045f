# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-cann`: writes a model in the form that a session beside onnxruntime's CANN provider needs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.arguments import add_in_place, add_limits, add_target, limits, require_other_output
from poolgrad_lowering.cli.console import print_error, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.streams import model_file
from poolgrad_lowering.diagnostics.counted import counted

if TYPE_CHECKING:
    from poolgrad_lowering.entry.export_files import CannReport


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "export-cann",
        help="lower a model for a session beside onnxruntime's CANN provider",
        description="Export an original or a lowered model for a session with onnxruntime's CANN provider in graph "
        "mode, which hands parts of it to CANN's graph engine. `runtime.create_session` does the same by itself; the "
        "file is for sessions that are made in other ways. Inputs, outputs and results stay.",
        examples=(
            ("poolgrad export-cann training.onnx -o session.onnx --target Ascend910B3", "for a SoC name"),
            ("poolgrad export-cann training.onnx -o session.onnx --verify", "write only what is proven"),
        ),
    )
    parser.add_argument("model", type=model_file, metavar="IN.onnx", help="the model, original or lowered")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="where to write it")
    add_in_place(parser)
    parser.add_argument("--force", action="store_true", help="write the model even if graph mode cannot run it")
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
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.cli.report_text import print_report, print_warnings  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.entry.export_files import export_cann_file  # noqa: PLC0415 - as above

    require_other_output(options)
    report = export_cann_file(
        options.model,
        options.output,
        target=options.target,
        force=options.force,
        verify=options.verify,
        report_path=options.report,
        copy_external=options.copy_external,
        limits=limits(options),
    )
    if not options.quiet:
        print_warnings(report.lowering, options)
    if options.json:
        print(report.to_json(), end="")
    elif not options.quiet:
        print_report(report.lowering)
        _print_obstacles(report)
    if not report.converts:
        outcome = "the model is written as --force says" if options.force else "no model written (--force writes it)"
        print_error(f"graph mode: {counted(len(report.obstacles), 'obstacle')}; {outcome}")
        return ExitCode.FAILED
    if not (options.json or options.quiet):
        print_line(f"wrote {options.output}: {report.edits.text}")
    return ExitCode.DONE


def _print_obstacles(report: CannReport) -> None:
    if report.obstacles:
        rows = [(o.node or "the model", o.operator, f"{o.code}: {o.reason}") for o in report.obstacles]
        print_table(("node", "operator", "obstacle"), rows)
        for code, advice in {obstacle.code: obstacle.advice for obstacle in report.obstacles}.items():
            print_line(f"{code}: {advice}")
