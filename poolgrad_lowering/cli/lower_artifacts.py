# SPDX-License-Identifier: Apache-2.0

"""`poolgrad lower-artifacts`: lowers a folder that onnxruntime's `generate_artifacts` has written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.arguments import add_limits, add_shared, limits

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "lower-artifacts",
        help="lower onnxruntime's training artifacts into a folder to train from",
        description="Lower the training model of onnxruntime's training artifacts, and copy the evaluation model, the "
        "optimizer model and the checkpoint into the same new folder, for use with `onnxruntime.training.api`. With "
        "--standard, write the step as one model in standard ONNX, for use with `runtime.TrainingLoop`.",
        examples=(
            ("poolgrad lower-artifacts artifacts -o lowered", "training, eval and optimizer model, checkpoint"),
            ("poolgrad lower-artifacts artifacts -o step --standard", "a step, eval model, first values, checkpoint"),
            ("poolgrad lower-artifacts artifacts -o lowered --strict", "only if every anchor is lowered"),
        ),
    )
    parser.add_argument("source", type=Path, metavar="DIR", help="the folder that generate_artifacts has written")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUTDIR", help="a new or empty folder")
    parser.add_argument("--report", type=Path, metavar="REPORT.json", help="write the training model's report as JSON")
    add_shared(parser, "--strict", "--verify", "--target", "--no-forward", "--standard")
    parser.add_argument("--accumulate", action="store_true", help="with --standard: give the step an input `update`")
    parser.add_argument("--json", action="store_true", help="print the training model's report as JSON")
    add_limits(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.cli.report_text import print_outcome  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.entry.artifacts import lower_artifacts  # noqa: PLC0415 - as above

    proofs: list[Verification] = []
    report = lower_artifacts(
        options.source,
        options.output,
        target=options.target,
        forward=not options.no_forward,
        strict=options.strict,
        verify=options.verify,
        on_proven=proofs.append,
        report_path=options.report,
        standard=options.standard,
        accumulate=options.accumulate,
        limits=limits(options),
    )
    return print_outcome(report, options, proofs)
