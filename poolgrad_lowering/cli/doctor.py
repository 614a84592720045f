# SPDX-License-Identifier: Apache-2.0

"""`poolgrad doctor`: reports which backends can run lowered models on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="report which backends can run lowered models on this machine, and why others cannot",
        description="Report what can run lowered models on this machine: onnxruntime, provider, CANN, chip, operators.",
        examples=(("poolgrad doctor", "exits with 1 if no backend works"),),
    )
    parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.runtime.diagnosis_text import to_text  # noqa: PLC0415 - the compiler needs no runtime
    from poolgrad_lowering.runtime.doctor import diagnose  # noqa: PLC0415 - as above

    diagnosis = diagnose()
    print(diagnosis.to_json() if options.json else to_text(diagnosis), end="")
    return ExitCode.DONE if diagnosis.works else ExitCode.FAILED
