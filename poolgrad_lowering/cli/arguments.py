# SPDX-License-Identifier: Apache-2.0

"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from poolgrad_lowering.diagnostics.errors import UsageError
from poolgrad_lowering.gate.limits import Limits
from poolgrad_lowering.io.atomic_write import is_same_file


def add_output_options(parser: argparse.ArgumentParser, *, default: bool) -> None:
    """Add --verbose and --quiet; only the top-level parser sets their defaults (`default`)."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0 if default else argparse.SUPPRESS,
        help="log to standard error; given twice, log every verdict",
    )
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=False if default else argparse.SUPPRESS,
        help="print only errors, and output that was requested",
    )


_SHARED: dict[str, dict[str, Any]] = {
    "--copy-external": {
        "action": "store_true",
        "help": "copy the external data that the written model needs into the output's folder",
    },
    "--html": {
        "type": Path,
        "metavar": "REPORT.html",
        "help": "write the report as a page for a browser; for a folder of models, a folder of pages with an "
        "index.html",
    },
    "--in-place": {"action": "store_true", "help": "let OUT be the same file as IN, which is replaced"},
    "--no-forward": {"action": "store_true", "help": "do not lower forward pools"},
    "--standard": {
        "action": "store_true",
        "help": "write the operators of training runtimes that are left, such as ConvGrad, in standard ONNX",
    },
    "--strict": {"action": "store_true", "help": "exit 1 and write no model if an anchor was refused"},
    "--target": {"metavar": "T", "help": "product or SoC name (default: atlas-a2; see `poolgrad targets`)"},
    "--trust-defaults": {
        "action": "store_true",
        "help": "take initializers that are also graph inputs for constants; right if no caller overrides them",
    },
    "--verify": {"action": "store_true", "help": "exit 1 and write no model if the result is not proven"},
}
"""Options of several commands, with what argparse has to know of them."""


def add_shared(parser: argparse._ActionsContainer, *flags: str) -> None:
    """Add options that several commands have."""
    for flag in flags:
        parser.add_argument(flag, **_SHARED[flag])


def require_other_output(options: argparse.Namespace) -> None:
    """Raise `UsageError` if the output is the model itself, not a folder, and --in-place was not given."""
    if is_same_file(options.model, options.output) and not (options.in_place or options.model.is_dir()):
        raise UsageError(
            f"the output '{options.output}' is the model itself: give another name, or replace it with --in-place"
        )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs."""
    parser.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="for a folder: number of processes (default: one per CPU)"
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add one argument for each field of `Limits`."""
    for limit in fields(Limits):
        flag, described = f"--{limit.name.replace('_', '-')}", f"{limit.metadata['help']} (default: {limit.default})"
        parser.add_argument(flag, type=int, default=limit.default, metavar="N", help=described)


def limits(options: argparse.Namespace) -> Limits:
    """Return the limits from parsed arguments."""
    return Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})


def positive(text: str) -> int:
    """Parse an integer of 1 or more."""
    if (number := natural(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def natural(text: str) -> int:
    """Parse an integer of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of 0 or more")
    return int(text)
