# SPDX-License-Identifier: Apache-2.0

"""`poolgrad lower`, `poolgrad lower-artifacts` and `poolgrad inspect`.

They lower a model, a folder of models or training artifacts, or report what would be lowered, what not, and why.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from poolgrad_lowering.entry.cli.arguments import LIMITS, Command, argument, call, flag, keywords, require_other_output
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.streams import model_file


def _lower(options: argparse.Namespace) -> ExitCode:
    require_other_output(options)
    if options.model.is_dir():
        from poolgrad_lowering.entry.cli.folders import run_folder  # noqa: PLC0415 - `--help` must not load onnx
        from poolgrad_lowering.entry.folders import lower_folder  # noqa: PLC0415 - as above

        work = partial(lower_folder, options.model, options.output, report_folder=options.report, **keywords(options))
        return run_folder(work, "written", options)
    from poolgrad_lowering.entry.cli.report_text import print_outcome  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.files import lower_file  # noqa: PLC0415 - as above

    plan = None
    if options.plan is not None:
        from poolgrad_lowering.compiler.lowering.plan import read_plan  # noqa: PLC0415 - as above

        plan = read_plan(options.plan)
    return print_outcome(*call(lower_file, options.model, options, plan=plan, html_path=options.html), options)


def _lower_artifacts(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.entry.artifacts import lower_artifacts  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.cli.report_text import print_outcome  # noqa: PLC0415 - as above

    return print_outcome(*call(lower_artifacts, options.source, options), options)


def _inspect(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.entry.file_io import FileOptions  # noqa: PLC0415 - as above

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
    "lower": Command(
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
        arguments=(
            argument("model", type=model_file, metavar="IN", help="the model, or a folder of models"),
            argument(
                "-o",
                "--output",
                type=model_file,
                required=True,
                metavar="OUT",
                help="where to write it; for a folder, a folder",
            ),
            argument(
                "--report",
                type=Path,
                metavar="REPORT.json",
                help="write the report as JSON; for a folder of models, a folder of reports",
            ),
            *("--html", "--in-place", "--strict", "--verify", "--copy-external"),
            *("--target", "--trust-defaults", "--standard", "--keep-onnx"),
            (
                "--no-forward",
                argument("--plan", type=Path, metavar="PLAN.json", help="lower each site as this plan says"),
            ),
            "--jobs",
            flag("--json", "print the report as JSON; for a folder, all of them"),
            *LIMITS,
        ),
        run=_lower,
    ),
    "lower-artifacts": Command(
        help="lower onnxruntime's training artifacts into a folder to train from",
        description="Lower the training model of onnxruntime's training artifacts, and copy the evaluation model, the "
        "optimizer model and the checkpoint into the same new folder, for use with `onnxruntime.training.api`. With "
        "--standard, write the step as one model in standard ONNX, for use with `runtime.TrainingLoop`.",
        examples=(
            ("poolgrad lower-artifacts artifacts -o lowered", "training, eval and optimizer model, checkpoint"),
            ("poolgrad lower-artifacts artifacts -o step --standard", "a step, eval model, first values, checkpoint"),
            ("poolgrad lower-artifacts artifacts -o lowered --strict", "only if every anchor is lowered"),
        ),
        arguments=(
            argument("source", type=Path, metavar="DIR", help="the folder that generate_artifacts has written"),
            argument("-o", "--output", type=Path, required=True, metavar="OUTDIR", help="a new or empty folder"),
            argument("--report", type=Path, metavar="REPORT.json", help="write the training model's report as JSON"),
            *("--strict", "--verify", "--target", "--no-forward", "--standard"),
            flag("--accumulate", "with --standard: give the step an input `update`"),
            flag("--json", "print the training model's report as JSON"),
            *LIMITS,
        ),
        run=_lower_artifacts,
    ),
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
