# SPDX-License-Identifier: Apache-2.0

"""`poolgrad targets`: lists the targets, or the SoC names and operators of one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.console import print_json, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from poolgrad_lowering.entry.listing import TargetRecord


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "targets",
        help="list the targets, or the SoC names and operators of one",
        description="List the products to lower for. With a product or a SoC name, show its SoC names and operators.",
        examples=(
            ("poolgrad targets", "a line for each product"),
            ("poolgrad targets atlas-a2", "SoC names, operators, element types and limits"),
            ("poolgrad targets Ascend910B3", "the same: a SoC name stands for its product"),
        ),
    )
    parser.add_argument("target", nargs="?", metavar="T", help="a product or SoC name (default: all products)")
    parser.add_argument("--json", action="store_true", help="print the products as JSON, with all their details")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.entry.listing import list_targets  # noqa: PLC0415 - as above
    from poolgrad_lowering.targets.table import DEFAULT_TARGET, find_target  # noqa: PLC0415 - `--help` must not load onnx

    targets = list_targets()
    if options.target is not None:
        name = find_target(options.target).name
        targets = [target for target in targets if target.name == name]
    if options.json:
        print_json({"default": DEFAULT_TARGET, "targets": [_as_json(target) for target in targets]})
    elif options.target is not None:
        _print_details(targets[0])
    else:
        print_table(("target", "product", "gradients", "SoC names"), [_row(target) for target in targets])
    return ExitCode.DONE


def _as_json(target: TargetRecord) -> dict[str, Any]:
    operators = [asdict(operator) for operator in target.operators]
    return {
        "name": target.name,
        "title": target.title,
        "operators": [operator["name"] for operator in operators],
        "socs": list(target.socs),
        "support": operators,
    }


def _shown_name(target: TargetRecord) -> str:
    return f"{target.name} (default)" if target.is_default else target.name


def _row(target: TargetRecord) -> tuple[str, str, str, str]:
    gradients = "lowered" if target.operators else "refused"
    return _shown_name(target), target.title, gradients, f"{len(target.socs)}, such as {target.socs[0]}"


def _print_details(target: TargetRecord) -> None:
    print_table(("target", _shown_name(target)), [("product", target.title), ("SoC names", ", ".join(target.socs))])
    if not target.operators:
        print_line("no operators: every gradient is refused")
        return
    rows = [
        (each.name, ", ".join(each.functions), ", ".join(each.element_types), str(each.max_plane))
        for each in target.operators
    ]
    print_table(("operator of domain npu", "run by", "element types", "elements of a plane, at most"), rows)
