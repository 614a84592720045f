# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-atc` and `poolgrad export-cann`: export a model for CANN, and print what became of it.

The first is for ATC, CANN's offline converter, and prints how to convert the model, or writes the plugin that ATC
needs; the second is for a session beside onnxruntime's CANN provider.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.entry.cli.arguments import LIMITS, Command, argument, call, flag, require_other_output
from poolgrad_lowering.entry.cli.console import print_error, print_json, print_line, print_table
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.streams import model_file
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.diagnostics.text import counted, printable

if TYPE_CHECKING:
    from poolgrad_lowering.entry.exports import AtcReport, ExportReport
    from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle
    from poolgrad_lowering.verification.result import Verification


def _export_atc(options: argparse.Namespace) -> ExitCode:
    files = options.model is not None, options.output is not None
    if options.plugin is not None and not any(files):
        return _write_plugin(options)
    if options.plugin is not None or options.machine is not None or not all(files):
        raise UsageError("give a model with -o OUT.onnx, or --plugin DIR alone or with --machine")
    from poolgrad_lowering.entry.export_files import export_atc_file  # noqa: PLC0415 - `--help` must not load onnx

    require_other_output(options)
    report, proofs = call(export_atc_file, options.model, options)
    for name in () if options.quiet else report.constant_inputs:
        print_error(
            f"warning: {printable(name)}: ATC makes a constant of this input, which has a default; with "
            "--weights-as-inputs it stays an input"
        )
    refused = f"atc: {counted(len(report.obstacles), 'obstacle')} to a conversion"
    return _print_export(report, options, proofs, written=_conversion(report, options.output), refused=refused)


def _write_plugin(options: argparse.Namespace) -> ExitCode:
    """Write the parser plugin with which ATC converts lowered models, and print the line after which ATC finds it."""
    from poolgrad_lowering.ge.atc.plugin_folder import write_atc_plugin  # noqa: PLC0415 - as above

    made = write_atc_plugin(options.plugin, machine=options.machine)
    if options.json:
        print_json({name: value and str(value) for name, value in asdict(made).items()})
        return ExitCode.DONE
    if made.library is None and not options.quiet:
        print_error(f"warning: this installation has no library of the plugin; where the toolkit is, run {made.build}")
    print_line(made.setting)
    return ExitCode.DONE


def _export_cann(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.entry.export_files import export_cann_file  # noqa: PLC0415 - as above

    require_other_output(options)
    report, proofs = call(export_cann_file, options.model, options)
    written = [f"wrote {options.output}: {report.edits.text}"]
    refused = f"graph mode: {counted(len(report.obstacles), 'obstacle')}"
    return _print_export(report, options, proofs, written=written, refused=refused)


def _print_export(
    report: ExportReport,
    options: argparse.Namespace,
    proofs: Sequence[Verification],
    *,
    written: Sequence[str],
    refused: str,
) -> ExitCode:
    """Print the result of an export, then that of the lowering before it, and return the exit code.

    `written` are lines about a model that converts, `refused` says why one does not.
    """
    from poolgrad_lowering.entry.cli import report_text  # noqa: PLC0415 - as above

    report_text.print_warnings(report.lowering, options)
    if options.json:
        print(report.to_json(), end="")
    elif not options.quiet:
        if report.converts:
            report_text.print_proofs(proofs, options)
            for line in written:
                print_line(line)
        _print_obstacles(report.obstacles)
        report_text.print_report(report.lowering)
    defects = report_text.print_defects(report.lowering)
    if report.converts:
        return defects
    outcome = "the model is written as --force says" if options.force else "no model written (--force writes it)"
    print_error(f"{refused}; {outcome}")
    return ExitCode.FAILED


def _conversion(report: AtcReport, output: Path) -> list[str]:
    """Return lines that say how to convert the exported model, with commands for a shell."""
    found = report.conversion
    folder = [f"cd {shlex.quote(str(output.parent))}"] if output.parent != Path() else []
    symbols = ["# replace each size in --input_shape that is a name by a number"] if found.input_shape else []
    commands = [*folder, *found.environment, *symbols, found.command]
    return [
        f"wrote {output}, in which no obstacle is known. To convert it with CANN {found.cann} or newer:",
        *(f"  {command}" for command in commands),
    ]


def _print_obstacles(obstacles: Sequence[NodeObstacle]) -> None:
    """Print a table of the obstacles and what to do about each kind; nothing if there are none."""
    if obstacles:
        rows = [(o.node or "the model", o.operator, f"{o.code}: {o.reason}") for o in obstacles]
        print_table(("node", "operator", "obstacle"), rows)
    for code, advice in {obstacle.code: obstacle.advice for obstacle in obstacles}.items():
        print_line(f"{code}: {advice}")


_MODEL: dict[str, Any] = {"type": model_file, "metavar": "IN.onnx", "help": "the model, original or lowered"}
_OUTPUT: dict[str, Any] = {"type": Path, "metavar": "OUT.onnx", "help": "where to write it"}
_AFTER_FORCE: tuple[Any, ...] = (
    "--verify",
    argument("--report", type=Path, metavar="REPORT.json", help="write the report as JSON"),
    "--copy-external",
    "--target",
    flag("--json", "print the report as JSON"),
    *LIMITS,
)

COMMANDS = {
    "export-atc": Command(
        help="lower a model for ATC, CANN's offline converter to .om files",
        description="Export an original or a lowered model for ATC, CANN's offline converter to .om files, and print "
        "the command that converts it. Every node that ATC cannot convert is named, and the model is then not written. "
        "With --plugin in place of a model, write the parser plugin with which ATC converts such models, and print the "
        "line for a shell after which ATC finds it. For onnxruntime, use `poolgrad lower`.",
        examples=(
            ("poolgrad export-atc training.onnx -o export.onnx --target Ascend910B3", "for a SoC name"),
            (
                "poolgrad export-atc training.onnx -o export.onnx --weights-as-inputs '*.weight'",
                "weights stay trainable",
            ),
            ("poolgrad export-atc training.onnx -o export.onnx --report export.json", "with a report as JSON"),
            ("poolgrad export-atc --plugin npu-plugin", "the plugin that ATC needs, for this machine"),
        ),
        arguments=(
            argument("model", nargs="?", **_MODEL),
            argument("-o", "--output", **_OUTPUT),
            argument(
                "--plugin",
                type=Path,
                metavar="DIR",
                help="write ATC's parser plugin into this folder, which is made if it does not exist",
            ),
            argument("--machine", choices=("x86_64", "aarch64"), help="demand a plugin's library for this processor"),
            "--in-place",
            argument(
                "--weights-as-inputs",
                nargs="+",
                default=[],
                metavar="NAME",
                help="make these initializers graph inputs (names or globs), since ATC makes constants of initializers",
            ),
            flag("--force", "write the model even if ATC cannot convert it"),
            *_AFTER_FORCE,
        ),
        run=_export_atc,
    ),
    "export-cann": Command(
        help="lower a model for a session beside onnxruntime's CANN provider",
        description="Export an original or a lowered model for a session with onnxruntime's CANN provider in graph "
        "mode, which hands parts of it to CANN's graph engine. `runtime.create_session` does the same by itself; the "
        "file is for sessions that are made in other ways. Inputs, outputs and results stay.",
        examples=(
            ("poolgrad export-cann training.onnx -o session.onnx --target Ascend910B3", "for a SoC name"),
            ("poolgrad export-cann training.onnx -o session.onnx --verify", "write only what is proven"),
        ),
        arguments=(
            argument("model", **_MODEL),
            argument("-o", "--output", required=True, **_OUTPUT),
            "--in-place",
            flag(
                "--lower-onnx",
                "also lower gradients of average pools that are in ONNX's own operators, which CANN's graph engine "
                "runs",
            ),
            flag("--force", "write the model even if graph mode cannot run it"),
            *_AFTER_FORCE,
        ),
        run=_export_cann,
    ),
}
