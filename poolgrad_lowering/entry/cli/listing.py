# SPDX-License-Identifier: Apache-2.0

"""`poolgrad patterns` and `poolgrad targets`: list the forms that are recognised, and the targets."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.entry.cli.arguments import Command, argument, flag
from poolgrad_lowering.entry.cli.console import print_json, print_line, print_table
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.model.diagnostics.text import operator_text

if TYPE_CHECKING:
    from poolgrad_lowering.entry.listing import TargetRecord


def _list_patterns(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.entry.listing import list_patterns  # noqa: PLC0415 - `--help` must not load onnx

    found = list_patterns()
    used = [pattern for pattern in found if pattern.problem is None]
    broken = [pattern for pattern in found if pattern.problem is not None]
    if options.json:
        patterns = [
            {
                "name": pattern.name,
                "anchors": [{"domain": domain, "op_type": op_type} for domain, op_type in pattern.anchors],
                "summary": pattern.summary,
            }
            for pattern in used
        ]
        plugins = [{"name": pattern.name, "reason": pattern.problem} for pattern in broken]
        print_json({"patterns": patterns, "broken_plugins": plugins})
        return ExitCode.DONE
    rows = [(p.name, ", ".join(operator_text(*op) for op in p.anchors), p.summary) for p in used]
    print_table(("pattern", "anchors", "form"), rows)
    for pattern in broken:
        print_line(f"not used: {pattern.name}: {pattern.problem}")
    return ExitCode.DONE


def _list_targets(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, find_target  # noqa: PLC0415 - as above
    from poolgrad_lowering.entry.listing import list_targets  # noqa: PLC0415 - as above

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
    return {
        "name": target.name,
        "title": target.title,
        "operators": [operator.name for operator in target.operators],
        "socs": list(target.socs),
        "support": [asdict(operator) for operator in target.operators],
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


COMMANDS = {
    "patterns": Command(
        help="list the forms that are recognised",
        description="List the forms of a pool gradient that are recognised, including those of other packages.",
        examples=(("poolgrad patterns", "name, anchor operators and summary of each form"),),
        arguments=(flag("--json", "print the forms as JSON"),),
        run=_list_patterns,
    ),
    "targets": Command(
        help="list the targets, or the SoC names and operators of one",
        description="List the products to lower for. With a product or a SoC name, show its SoC names and operators.",
        examples=(
            ("poolgrad targets", "a line for each product"),
            ("poolgrad targets atlas-a2", "SoC names, operators, element types and limits"),
            ("poolgrad targets Ascend910B3", "the same: a SoC name stands for its product"),
        ),
        arguments=(
            argument("target", nargs="?", metavar="T", help="a product or SoC name (default: all products)"),
            flag("--json", "print the products as JSON, with all their details"),
        ),
        run=_list_targets,
    ),
}
