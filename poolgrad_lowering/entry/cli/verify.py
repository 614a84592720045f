# SPDX-License-Identifier: Apache-2.0

"""`poolgrad verify`: proves that a lowered model computes the same as its original."""

from __future__ import annotations

import argparse
import filecmp
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.entry.cli.arguments import Command, argument, flag, natural, positive
from poolgrad_lowering.entry.cli.console import ProgressBar, print_error, print_json, print_line, print_table
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.folders import FolderOutput
from poolgrad_lowering.entry.cli.streams import model_file
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.diagnostics.text import counted, with_layers

if TYPE_CHECKING:
    from poolgrad_lowering.entry.verify import PairResult
    from poolgrad_lowering.verification.result import Verification


_SHOWN = 20
"""Differences outside of sites that are printed."""


def _verify(options: argparse.Namespace) -> ExitCode:
    verification = {name: getattr(options, name) for name in ("runs", "seed", "backend", "whole_model")}
    is_folder = options.original.is_dir() and options.lowered.is_dir()
    return (_verify_folders if is_folder else _verify_files)(options, verification)


def _verify_files(options: argparse.Namespace, verification: dict[str, Any]) -> ExitCode:
    from poolgrad_lowering.entry.verify import verify_files  # noqa: PLC0415 - `--help` must not load onnx

    files, bar = (options.original, options.lowered), ProgressBar(sys.stderr, quiet=options.quiet)
    found = verify_files(*files, reproducer=options.reproducer, progress=bar, **verification)
    if options.json:
        print(found.to_json(), end="")
    else:
        _print_verification(found)
    if not _has_sites(found):
        if filecmp.cmp(options.original, options.lowered, shallow=False):
            why = "both files are the same, byte for byte: there is nothing to verify"
        else:
            why = "no site: no operator of domain npu replaces a part of the original, so there is nothing to prove"
        print_error(f"warning: {why}")
    return _exit_code([found], options)


def _verify_folders(options: argparse.Namespace, verification: dict[str, Any]) -> ExitCode:
    from poolgrad_lowering.entry.verify import verify_folder  # noqa: PLC0415 - as above

    if options.reproducer is not None:
        raise UsageError("--reproducer is for two models, not for folders")
    output = FolderOutput(options)

    def show(result: PairResult, done: int, total: int) -> None:
        found = result.verification
        status, detail = ("failed", "") if found is None else _line(found)
        if options.quiet and found is not None and not _passed(found, options):
            print_error(f"{status}: {result.path}: {detail}")
        output.show(result.path, result.error, status, detail, done=done, total=total)

    with output.cleared_by_interrupts():
        results = verify_folder(options.original, options.lowered, jobs=options.jobs, on_result=show, **verification)
    return _print_pairs(results, options)


def _line(found: Verification) -> tuple[str, str]:
    """Return the status of a model, and a text on it."""
    from poolgrad_lowering.verification.result import failure_text  # noqa: PLC0415 - as above

    if not found.proven:
        site = found.first_failure
        return site.status if site and not found.differences else "differs", failure_text(found)
    if not _has_sites(found):
        return "unproven", "no site: nothing to verify"
    return "proven", f"{counted(len(found.sites), 'site')}{', whole models not run' if found.sites_only else ''}"


def _print_pairs(results: list[PairResult], options: argparse.Namespace) -> ExitCode:
    verified = [result.verification for result in results if result.verification is not None]
    passed = sum(_passed(found, options) for found in verified)
    if options.json:
        files = [
            {"path": r.path, "error": r.error, "verification": r.verification and r.verification.to_dict()}
            for r in results
        ]
        print_json({"files": files, "summary": {"files": len(results), "passed": passed}})
    elif not options.quiet:
        proven = [found for found in verified if found.proven]
        without = sum(not _has_sites(found) for found in proven)
        alone = sum(_has_sites(found) and found.sites_only for found in proven)
        not_run = f" ({alone} without a run of the whole models)" if alone else ""
        strictly = " (which --strict takes for a failure)" if without and options.strict else ""
        print_line(
            f"{counted(len(results), 'model')}, {len(proven) - without} proven{not_run}, {without} without a site"
            f"{strictly}, {len(verified) - len(proven)} not proven, {len(results) - len(verified)} failed"
        )
    return _exit_code(verified, options) if passed == len(results) else ExitCode.FAILED


def _has_sites(found: Verification) -> bool:
    return bool(found.sites or found.operators)


def _passed(found: Verification, options: argparse.Namespace) -> bool:
    return found.proven and (_has_sites(found) or not options.strict)


def _exit_code(results: Sequence[Verification], options: argparse.Namespace) -> ExitCode:
    if not all(_passed(found, options) for found in results):
        return ExitCode.FAILED
    not_run = any(_has_sites(found) and found.sites_only for found in results)
    return ExitCode.SITES_ONLY if not_run and options.whole_model else ExitCode.DONE


def _print_verification(found: Verification) -> None:
    from poolgrad_lowering.verification import result  # noqa: PLC0415 - as above

    if found.sites:
        rows = [result.site_row(site) for site in found.sites]
        print_table(*with_layers([site.layer for site in found.sites], ("site", "status", "what"), rows))
    if found.operators:
        rows = [result.operator_row(each) for each in found.operators]
        print_table(("operator in standard ONNX", "status", "what"), rows)
    for difference in found.differences[:_SHOWN]:
        print_line(f"{difference.where}: {difference.what}")
    if (left := len(found.differences) - _SHOWN) > 0:
        print_line(f"and {counted(left, 'more difference')}; --json has all")
    if inputs := result.inputs_line(found):
        print_line(inputs)
    for line in result.whole_lines(found):
        print_line(line)
    print_line(f"{result.totals_text(found)}; {found.seconds:.3f} s")
    if failure := result.failure_text(found):
        print_error(f"verify: {failure}")


COMMANDS = {
    "verify": Command(
        help="prove that a lowered model computes the same as its original",
        description="Prove from two files alone that a lowered model computes the same as its original, bit for bit. "
        "For two folders, verify the models of the same relative paths.",
        examples=(
            ("poolgrad verify training.onnx lowered.onnx", "run each site on generated data, and both models"),
            ("poolgrad verify training.onnx lowered.onnx --backend cann", "run the lowered sites on the NPU"),
            ("poolgrad verify training.onnx lowered.onnx --reproducer case", "write the first site that fails"),
            ("poolgrad verify models lowered --strict", "models of the same relative paths in two folders"),
        ),
        arguments=(
            argument(
                "original", type=model_file, metavar="ORIGINAL.onnx", help="the model before lowering, or a folder"
            ),
            argument("lowered", type=model_file, metavar="LOWERED.onnx", help="the model after lowering, or a folder"),
            argument("--runs", type=positive, metavar="N", help="runs of each site (default: 9)"),
            argument("--seed", type=natural, default=0, metavar="S", help="seed of the generated data (default: 0)"),
            argument("--backend", choices=("host", "cann"), help="run lowered sites on the execution provider"),
            argument("--reproducer", type=Path, metavar="DIR", help="folder for the first failing site"),
            flag("--no-whole-model", "do not run the models from end to end"),
            flag("--strict", "exit 1 if there is no site, so that nothing is proven"),
            "--jobs",
            flag("--json", "print the result as JSON"),
        ),
        run=_verify,
    ),
}
