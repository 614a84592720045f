# SPDX-License-Identifier: Apache-2.0

"""`poolgrad inspect`: reports what would be lowered, what not, and why."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from poolgrad_lowering.entry.cli.arguments import LIMITS, Command, argument, flag, keywords
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.streams import model_file


def _inspect(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.entry.source import FileOptions  # noqa: PLC0415 - `--help` must not load onnx

    inspection = FileOptions(**keywords(options))
    if options.model.is_dir():
        from poolgrad_lowering.entry.cli.folders import run_folder  # noqa: PLC0415 - as above
        from poolgrad_lowering.entry.folders import inspect_folder  # noqa: PLC0415 - as above

        return run_folder(partial(inspect_folder, options.model, inspection), "inspected", options)
    from poolgrad_lowering.entry.cli import report_text  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.files import inspect_file  # noqa: PLC0415 - as above

    report = inspect_file(options.model, inspection, plan_path=options.plan, html_path=options.html)
    report_text.print_warnings(report, options)
    if options.json:
        print(report.to_json(), end="")
    else:
        report_text.print_report(report)
        report_text.print_ways(report)
    return report_text.print_defects(report)


COMMANDS = {
    "inspect": Command(
        help="report what would be lowered, what not, and why; change nothing",
        description="Report what would be lowered, what not, and why. With --plan, write it as a plan to edit. For a "
        "folder, inspect every *.onnx file in it and its subfolders.",
        examples=(
            ("poolgrad inspect training.onnx", "a line per anchor"),
            ("poolgrad inspect training.onnx --json", "the report that `poolgrad lower --report` writes"),
            ("poolgrad inspect training.onnx --plan plan.json", "a plan for `poolgrad lower --plan`"),
            ("poolgrad inspect training.onnx --html report.html", "the report as a page, with drawings"),
            ("poolgrad inspect models", "all models in a folder: a line per model, and totals"),
        ),
        arguments=(
            argument("model", type=model_file, metavar="IN", help="the model, or a folder of models"),
            flag("--json", "print the report as JSON"),
            argument("--plan", type=Path, metavar="PLAN.json", help="write the lowering as a plan to edit"),
            *("--html", "--target", "--no-forward", "--trust-defaults", "--standard", "--keep-onnx", "--jobs"),
            *LIMITS,
        ),
        run=_inspect,
    ),
}
