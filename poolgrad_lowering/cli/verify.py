# SPDX-License-Identifier: Apache-2.0

"""`poolgrad verify`: proves that a lowered model computes the same as its original."""

from __future__ import annotations

import argparse
import filecmp
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.cli.arguments import natural, positive
from poolgrad_lowering.cli.console import print_error, print_line, print_table
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.streams import model_file
from poolgrad_lowering.diagnostics.counted import counted

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="prove that a lowered model computes the same as its original",
        description="Prove from two files alone that a lowered model computes the same as its original, bit for bit.",
        examples=(
            ("poolgrad verify training.onnx lowered.onnx", "run each site on generated data, and both models"),
            ("poolgrad verify training.onnx lowered.onnx --backend cann", "run the lowered sites on the NPU"),
            ("poolgrad verify training.onnx lowered.onnx --reproducer case", "write the first site that fails"),
        ),
    )
    parser.add_argument("original", type=model_file, metavar="ORIGINAL.onnx", help="the model before lowering")
    parser.add_argument("lowered", type=model_file, metavar="LOWERED.onnx", help="the model after lowering")
    parser.add_argument("--runs", type=positive, metavar="N", help="runs of each site (default: 9)")
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the generated data (default: 0)")
    parser.add_argument("--backend", choices=("host", "cann"), help="run lowered sites on the execution provider")
    parser.add_argument("--reproducer", type=Path, metavar="DIR", help="folder for the first failing site")
    parser.add_argument("--no-whole-model", action="store_true", help="do not run the models from end to end")
    parser.add_argument("--strict", action="store_true", help="exit 1 if there is no site, so that nothing is proven")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from poolgrad_lowering.cli.progress import ProgressBar  # noqa: PLC0415 - `--help` must not load onnx
    from poolgrad_lowering.verification.files import verify_files  # noqa: PLC0415 - as above

    found = verify_files(
        options.original,
        options.lowered,
        runs=options.runs,
        seed=options.seed,
        backend=options.backend,
        whole_model=not options.no_whole_model,
        reproducer=options.reproducer,
        progress=ProgressBar(sys.stderr, quiet=options.quiet),
    )
    if options.json:
        print(found.to_json(), end="")
    else:
        _print_verification(found)
    if not found.sites:
        print_error(f"warning: {_without_sites(options.original, options.lowered)}")
    return ExitCode.DONE if found.proven and (found.sites or not options.strict) else ExitCode.FAILED


def _without_sites(original: Path, lowered: Path) -> str:
    """Return why there was nothing to prove."""
    if filecmp.cmp(original, lowered, shallow=False):
        return "both files are the same, byte for byte: there is nothing to verify"
    return "no site: no operator of domain npu replaces a part of the original, so there is nothing to prove"


def _print_verification(found: Verification) -> None:
    from poolgrad_lowering.verification.text import failure_text, inputs_line, site_row, whole_lines  # noqa: PLC0415 - as above

    if found.sites:
        print_table(("site", "status", "what"), [site_row(site) for site in found.sites])
    for difference in found.differences:
        print_line(f"{difference.where}: {difference.what}")
    if inputs := inputs_line(found):
        print_line(inputs)
    for line in whole_lines(found.whole_model):
        print_line(line)
    print_line(
        f"{counted(len(found.sites), 'site')}, {sum(site.status == 'proven' for site in found.sites)} proven, "
        f"{counted(len(found.differences), 'difference')} outside of sites; {found.seconds:.3f} s"
    )
    if failure := failure_text(found):
        print_error(f"verify: {failure}")
