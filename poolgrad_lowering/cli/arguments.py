"""Arguments that several commands have, and what becomes of them."""

from __future__ import annotations

import argparse
from dataclasses import fields

from poolgrad_lowering.gate.limits import Limits


def add_output_options(parser: argparse.ArgumentParser, *, default: bool) -> None:
    """How much is printed; `default` only at the first of the parsers that have these."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0 if default else argparse.SUPPRESS,
        help="log what happens to standard error; twice for every verdict",
    )
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=False if default else argparse.SUPPRESS,
        help="print only results that were asked for, and errors",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """For which product."""
    parser.add_argument("--target", metavar="T", help="product or SoC name (default: atlas-a2; see `poolgrad targets`)")


def add_checks(parser: argparse.ArgumentParser) -> None:
    """What has to hold for a model to be written."""
    parser.add_argument("--strict", action="store_true", help="exit 1 and write no model if an anchor was refused")
    parser.add_argument("--verify", action="store_true", help="exit 1 and write no model if the result is not proven")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """How much of a model is taken."""
    for limit in fields(Limits):
        flag, described = f"--{limit.name.replace('_', '-')}", f"{limit.metadata['help']} (default: {limit.default})"
        parser.add_argument(flag, type=int, default=limit.default, metavar="N", help=described)


def limits(options: argparse.Namespace) -> Limits:
    """The limits that were given."""
    return Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})


def positive(text: str) -> int:
    """A number of 1 or more."""
    if (number := natural(text)) < 1:
        raise argparse.ArgumentTypeError("has to be 1 or more")
    return number


def natural(text: str) -> int:
    """A number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of 0 or more")
    return int(text)
