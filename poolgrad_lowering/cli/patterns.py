# SPDX-License-Identifier: Apache-2.0

"""`poolgrad patterns`: lists the forms that are recognised."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.console import operator_text, print_json, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "patterns",
        help="list the forms that are recognised",
        description="List the forms of a pool gradient that are recognised, including those of other packages.",
        examples=(("poolgrad patterns", "name, anchor operators and summary of each form"),),
    )
    parser.add_argument("--json", action="store_true", help="print the forms as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.entry.listing import list_patterns  # noqa: PLC0415 - `--help` must not load onnx

    found = list_patterns()
    used = [pattern for pattern in found if pattern.problem is None]
    broken = [pattern for pattern in found if pattern.problem is not None]
    if options.json:
        patterns = [
            {
                "name": pattern.name,
                "anchors": [{"domain": domain, "op_type": op_type} for domain, op_type in pattern.anchors],
                "summary": pattern.summary,
            }
            for pattern in used
        ]
        plugins = [{"name": pattern.name, "reason": pattern.problem} for pattern in broken]
        print_json({"patterns": patterns, "broken_plugins": plugins})
        return ExitCode.DONE
    rows = [(p.name, ", ".join(operator_text(*op) for op in p.anchors), p.summary) for p in used]
    print_table(("pattern", "anchors", "form"), rows)
    for pattern in broken:
        print_line(f"not used: {pattern.name}: {pattern.problem}")
    return ExitCode.DONE
