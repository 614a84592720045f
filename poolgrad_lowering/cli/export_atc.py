# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-atc`: exports a model for ATC, CANN's offline converter, and prints how to convert it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.console import print_error
from poolgrad_lowering.cli.exports import add_export, add_files, export, print_export
from poolgrad_lowering.diagnostics.text import counted, printable

if TYPE_CHECKING:
    from poolgrad_lowering.entry.exports import AtcReport


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "export-atc",
        help="lower a model for ATC, CANN's offline converter to .om files",
        description="Export an original or a lowered model for ATC, CANN's offline converter to .om files, and print "
        "the command that converts it. Every node that ATC cannot convert is named, and the model is then not written. "
        "For onnxruntime, use `poolgrad lower`.",
        examples=(
            ("poolgrad export-atc training.onnx -o export.onnx --target Ascend910B3", "for a SoC name"),
            (
                "poolgrad export-atc training.onnx -o export.onnx --weights-as-inputs '*.weight'",
                "weights stay trainable",
            ),
            ("poolgrad export-atc training.onnx -o export.onnx --report export.json", "with a report as JSON"),
        ),
    )
    add_files(parser)
    parser.add_argument(
        "--weights-as-inputs",
        nargs="+",
        default=[],
        metavar="NAME",
        help="make these initializers graph inputs (names or globs), since ATC makes constants of initializers",
    )
    add_export(parser, force="write the model even if ATC cannot convert it")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.entry.export_files import export_atc_file  # noqa: PLC0415 - `--help` must not load onnx

    report, proofs = export(export_atc_file, options, weights_as_inputs=options.weights_as_inputs)
    for name in () if options.quiet else report.constant_inputs:
        print_error(
            f"warning: {printable(name)}: ATC makes a constant of this input, which has a default; with "
            "--weights-as-inputs it stays an input"
        )
    refused = f"atc: {counted(len(report.obstacles), 'obstacle')} to a conversion"
    return print_export(report, options, proofs, written=_conversion(report, options.output), refused=refused)


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
