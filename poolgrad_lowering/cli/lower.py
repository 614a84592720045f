# SPDX-License-Identifier: Apache-2.0

"""`poolgrad lower`: lowers a model, or every model in a folder, and writes the result."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.arguments import add_jobs, add_limits, add_shared, limits, require_other_output
from poolgrad_lowering.cli.streams import model_file

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "lower",
        help="lower a model, or all models in a folder, and write the result",
        description="Lower every gradient of a pool of a model that the target can run, and write the result. For a "
        "folder, lower every *.onnx file in it and its subfolders.",
        examples=(
            ("poolgrad lower training.onnx -o lowered.onnx", "for atlas-a2"),
            ("poolgrad lower training.onnx -o lowered.onnx --target Ascend950PR_9599", "for a SoC name"),
            ("poolgrad lower training.onnx -o lowered.onnx --plan plan.json", "by a plan (`poolgrad inspect --plan`)"),
            ("poolgrad lower training.onnx -o lowered.onnx --standard", "without operators of a training runtime"),
            ("poolgrad lower models -o lowered --jobs 4 --report reports", "all models in a folder"),
            ("poolgrad lower models -o lowered --html pages", "with a page for each, and pages/index.html"),
        ),
    )
    parser.add_argument("model", type=model_file, metavar="IN", help="the model, or a folder of models")
    parser.add_argument(
        "-o",
        "--output",
        type=model_file,
        required=True,
        metavar="OUT",
        help="where to write it; for a folder, a folder",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="REPORT.json",
        help="write the report as JSON; for a folder of models, a folder of reports",
    )
    add_shared(parser, "--html", "--in-place", "--strict", "--verify", "--copy-external")
    add_shared(parser, "--target", "--trust-defaults", "--standard")
    parser.add_argument(
        "--keep-onnx",
        action="store_true",
        help="leave gradients that are written in ONNX's own operators, for a session beside the CANN provider",
    )
    choice = parser.add_mutually_exclusive_group()
    add_shared(choice, "--no-forward")
    choice.add_argument("--plan", type=Path, metavar="PLAN.json", help="lower each site as this plan says")
    add_jobs(parser)
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
        "standard": options.standard,
        "keep_onnx": options.keep_onnx,
        "limits": limits(options),
    }
    require_other_output(options)
    if options.model.is_dir():
        from poolgrad_lowering.cli.folders import run_folder  # noqa: PLC0415 - `--help` must not load onnx
        from poolgrad_lowering.entry.folders import lower_folder  # noqa: PLC0415 - as above

        work = partial(lower_folder, options.model, options.output, report_folder=options.report, **lowering)
        return run_folder(work, "written", options)
    from poolgrad_lowering.cli.report_text import print_outcome  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.files import lower_file  # noqa: PLC0415 - as above

    plan = None
    if options.plan is not None:
        from poolgrad_lowering.lowering.plan_file import read_plan  # noqa: PLC0415 - as above

        plan = read_plan(options.plan)
    proofs: list[Verification] = []
    report = lower_file(
        options.model,
        options.output,
        plan=plan,
        on_proven=proofs.append,
        report_path=options.report,
        html_path=options.html,
        **lowering,
    )
    return print_outcome(report, options, proofs)
