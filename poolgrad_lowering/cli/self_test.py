# SPDX-License-Identifier: Apache-2.0

"""`poolgrad self-test`: runs every operator on a backend and compares it with its definition."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "self-test",
        help="run every operator on a backend and compare with its definition",
        description="Run every operator, window kind and element type on a backend, and compare the results with the "
        "definition.",
        examples=(
            ("poolgrad self-test", "on the NPU if there is one, else on the CPU"),
            ("poolgrad self-test --backend host --json", "on the CPU, the result as JSON"),
        ),
    )
    parser.add_argument("--backend", choices=("auto", "cann", "host"), default="auto", help="default: auto")
    parser.add_argument("--json", action="store_true", help="print the result and the machine as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.cli.console import ProgressBar  # noqa: PLC0415 - the compiler needs no runtime
    from poolgrad_lowering.runtime.self_test.tester import self_test  # noqa: PLC0415 - as above
    from poolgrad_lowering.runtime.self_test.text import to_text  # noqa: PLC0415 - as above

    found = self_test(options.backend, ProgressBar(sys.stderr, quiet=options.quiet))
    print(found.to_json() if options.json else to_text(found), end="")
    return ExitCode.DONE if found.passed else ExitCode.FAILED
