# SPDX-License-Identifier: Apache-2.0

"""`poolgrad targets`: lists products, SoC names and operators."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.console import print_json, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "targets",
        help="list products, SoC names and operators",
        description="List the products to lower for, with their SoC names and operators.",
        examples=(("poolgrad targets", "the values of `--target`"),),
    )
    parser.add_argument("--json", action="store_true", help="print the products as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.dialect import DOMAIN  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.legality.targets import DEFAULT_TARGET, TARGETS  # noqa: PLC0415 - as above

    if options.json:
        products = [
            {"name": t.name, "title": t.title, "operators": list(t.operators), "socs": list(t.socs)}
            for t in TARGETS.values()
        ]
        print_json({"default": DEFAULT_TARGET, "targets": products})
        return ExitCode.DONE
    rows = [
        (
            target.name + (" (default)" if target.name == DEFAULT_TARGET else ""),
            target.title,
            ", ".join(target.operators) or "none: every gradient is refused",
            ", ".join(target.socs),
        )
        for target in TARGETS.values()
    ]
    print_table(("target", "product", f"operators of domain {DOMAIN}", "SoC names"), rows)
    return ExitCode.DONE
