# SPDX-License-Identifier: Apache-2.0

"""`poolgrad doctor` and `poolgrad self-test`: which backends work on this machine, and whether they compute right."""

from __future__ import annotations

import argparse
import sys

from poolgrad_lowering.entry.cli.arguments import Command, argument, flag
from poolgrad_lowering.entry.cli.console import ProgressBar
from poolgrad_lowering.entry.cli.exit_codes import ExitCode


def _doctor(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.runtime.diagnosis_text import to_text  # noqa: PLC0415 - the compiler needs no runtime
    from poolgrad_lowering.runtime.doctor import diagnose  # noqa: PLC0415 - as above

    diagnosis = diagnose()
    print(diagnosis.to_json() if options.json else to_text(diagnosis), end="")
    return ExitCode.DONE if diagnosis.works else ExitCode.FAILED


def _self_test(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.runtime.self_test.tester import self_test  # noqa: PLC0415 - as above
    from poolgrad_lowering.runtime.self_test.text import to_text  # noqa: PLC0415 - as above

    found = self_test(options.backend, ProgressBar(sys.stderr, quiet=options.quiet))
    print(found.to_json() if options.json else to_text(found), end="")
    return ExitCode.DONE if found.passed else ExitCode.FAILED


COMMANDS = {
    "doctor": Command(
        help="report which backends can run lowered models on this machine, and why others cannot",
        description="Report what can run lowered models on this machine: onnxruntime, provider, CANN, chip, operators.",
        examples=(("poolgrad doctor", "exits with 1 if no backend works"),),
        arguments=(flag("--json", "print the diagnosis as JSON"),),
        run=_doctor,
    ),
    "self-test": Command(
        help="run every operator on a backend and compare with its definition",
        description="Run every operator, window kind and element type on a backend, and compare the results with the "
        "definition.",
        examples=(
            ("poolgrad self-test", "on the NPU if there is one, else on the CPU"),
            ("poolgrad self-test --backend host --json", "on the CPU, the result as JSON"),
        ),
        arguments=(
            argument("--backend", choices=("auto", "cann", "host"), default="auto", help="default: auto"),
            flag("--json", "print the result and the machine as JSON"),
        ),
        run=_self_test,
    ),
}
