# SPDX-License-Identifier: Apache-2.0

"""`poolgrad inspect`: reports what would be lowered, what not, and why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from poolgrad_lowering.cli.arguments import add_limits, add_target, add_trust, limits
from poolgrad_lowering.cli.exit_codes import ExitCode


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "inspect",
        help="report what would be lowered, what not, and why; change nothing",
        description="Report what would be lowered, what not, and why. With --plan, write it as a plan to edit.",
        examples=(
            ("poolgrad inspect training.onnx", "a line per candidate"),
            ("poolgrad inspect training.onnx --json", "the report that `poolgrad lower --report` writes"),
            ("poolgrad inspect training.onnx --plan plan.json", "a plan for `poolgrad lower --plan`"),
            ("poolgrad inspect training.onnx --html report.html", "the report as a page, with drawings"),
        ),
    )
    parser.add_argument("model", type=Path, metavar="IN.onnx", help="the model")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--plan", type=Path, metavar="PLAN.json", help="write the lowering as a plan to edit")
    parser.add_argument("--html", type=Path, metavar="REPORT.html", help="write the report as a page for a browser")
    add_target(parser)
    parser.add_argument("--no-forward", action="store_true", help="do not lower forward pools")
    add_trust(parser)
    add_limits(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.cli.report_text import print_report, print_warnings, print_ways  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.entry.files import inspect_file  # noqa: PLC0415 - as above

    report = inspect_file(
        options.model,
        target=options.target,
        forward=not options.no_forward,
        trust_defaults=options.trust_defaults,
        plan_path=options.plan,
        html_path=options.html,
        limits=limits(options),
    )
    print_warnings(report, options)
    if options.json:
        print(report.to_json(), end="")
    else:
        print_report(report)
        print_ways(report)
    return ExitCode.DONE
