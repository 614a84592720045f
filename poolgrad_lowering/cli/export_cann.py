# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-cann`: writes a model in the form that a session beside onnxruntime's CANN provider needs."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.exports import add_export, add_files, export, print_export
from poolgrad_lowering.diagnostics.text import counted


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "export-cann",
        help="lower a model for a session beside onnxruntime's CANN provider",
        description="Export an original or a lowered model for a session with onnxruntime's CANN provider in graph "
        "mode, which hands parts of it to CANN's graph engine. `runtime.create_session` does the same by itself; the "
        "file is for sessions that are made in other ways. Inputs, outputs and results stay.",
        examples=(
            ("poolgrad export-cann training.onnx -o session.onnx --target Ascend910B3", "for a SoC name"),
            ("poolgrad export-cann training.onnx -o session.onnx --verify", "write only what is proven"),
        ),
    )
    add_files(parser)
    parser.add_argument(
        "--lower-onnx",
        action="store_true",
        help="also lower gradients of average pools that are in ONNX's own operators, which CANN's graph engine runs",
    )
    add_export(parser, force="write the model even if graph mode cannot run it")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.entry.export_files import export_cann_file  # noqa: PLC0415 - `--help` must not load onnx

    report, proofs = export(export_cann_file, options, lower_onnx=options.lower_onnx)
    written = [f"wrote {options.output}: {report.edits.text}"]
    refused = f"graph mode: {counted(len(report.obstacles), 'obstacle')}"
    return print_export(report, options, proofs, written=written, refused=refused)
