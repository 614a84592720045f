# SPDX-License-Identifier: Apache-2.0

"""Commands and their arguments as data, and the arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.io.atomic_write import is_same_file
from poolgrad_lowering.model.io.limits import Limits

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification

R = TypeVar("R")


class Argument(NamedTuple):
    """What argparse has to know of an argument: its names, and the options of `add_argument`.

    The help leaves out a rare argument, but not --help-all.
    """

    names: tuple[str, ...]
    options: dict[str, Any]
    is_rare: bool = False


Arguments: TypeAlias = "Iterable[Argument | str | Arguments]"
"""Arguments; those that several commands share as their names; and groups of arguments that exclude each other."""


class Command(NamedTuple):
    """A command: its texts in the help, its arguments, and the function that runs it and returns its exit code.

    The examples are pairs of a command line and its meaning. The help leaves out a rare command, but not --help-all.
    """

    help: str
    description: str
    examples: tuple[tuple[str, str], ...]
    arguments: Arguments
    run: Callable[[argparse.Namespace], int]
    is_rare: bool = False


def argument(*names: str, **options: Any) -> Argument:
    """Return an argument with the options of `add_argument`."""
    return Argument(names, options)


def flag(name: str, what: str) -> Argument:
    """Return an option without a value, false or, with `--no-`, true unless it is given. `what` is its help."""
    if name.startswith("--no-"):
        return argument(name, action="store_false", dest=name[len("--no-") :].replace("-", "_"), help=what)
    return argument(name, action="store_true", help=what)


def add_arguments(parser: argparse._ActionsContainer, arguments: Arguments, *, whole: bool) -> None:
    """Add arguments to a parser, with the help of the rare ones if the help is `whole`."""
    for each in arguments:
        found = _SHARED[each] if isinstance(each, str) else each
        if isinstance(found, Argument):
            hidden = {"help": argparse.SUPPRESS} if found.is_rare and not whole else {}
            parser.add_argument(*found.names, **found.options | hidden)
        else:
            add_arguments(parser.add_mutually_exclusive_group(), found, whole=whole)


def output_options(*, default: bool) -> Arguments:
    """Return --verbose and --quiet; only the top-level parser sets their defaults (`default`)."""
    verbose, quiet = (0, False) if default else (argparse.SUPPRESS, argparse.SUPPRESS)
    what = "log to standard error; given twice, log every verdict"
    silent = "print only errors, and output that was requested"
    return [
        (
            argument("-v", "--verbose", action="count", default=verbose, help=what),
            argument("-q", "--quiet", action="store_true", default=quiet, help=silent),
        )
    ]


def positive(text: str) -> int:
    """Parse an integer of 1 or more."""
    return _integer(text, 1)


def natural(text: str) -> int:
    """Parse an integer of 0 or more."""
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of {least} or more")
    return int(text)


_SHARED = {
    each.names[-1]: each
    for each in (
        flag("--copy-external", "copy the external data that the written model needs into the output's folder"),
        argument(
            "--html",
            type=Path,
            metavar="REPORT.html",
            help="write the report as a page for a browser; for a folder of models, a folder of pages with an "
            "index.html",
        ),
        flag("--in-place", "let OUT be the same file as IN, which is replaced"),
        argument(
            "-j", "--jobs", type=positive, metavar="N", help="for a folder: number of processes (default: one per CPU)"
        ),
        flag(
            "--keep-onnx",
            "leave gradients that are written in ONNX's own operators, for a session beside the CANN provider",
        ),
        flag("--no-forward", "do not lower forward pools"),
        flag(
            "--standard",
            "write the operators of training runtimes that are left, such as ConvGrad, in standard ONNX",
        ),
        flag("--strict", "exit 1 and write no model if an anchor was refused"),
        argument("--target", metavar="T", help="product or SoC name (default: atlas-a2; see `poolgrad targets`)"),
        flag(
            "--trust-defaults",
            "take initializers that are also graph inputs for constants; right if no caller overrides them",
        ),
        flag("--verify", "exit 1 and write no model if the result is not proven"),
    )
}
"""The arguments that several commands have, by name."""


def _limit(name: str, default: Any, what: str) -> Argument:
    options = {"type": int, "default": default, "metavar": "N", "help": f"{what} (default: {default})"}
    return Argument((f"--{name.replace('_', '-')}",), options, is_rare=True)


LIMITS = (
    argument("--help-all", action="help", help="as --help, with the limits of models"),
    *(_limit(limit.name, limit.default, limit.metadata["help"]) for limit in fields(Limits)),
)
"""One argument for each field of `Limits`, and the one that shows them."""


_KEYWORDS = frozenset(
    (
        *("target", "forward", "trust_defaults", "strict", "verify", "copy_external", "standard", "keep_onnx"),
        *("accumulate", "force", "lower_onnx", "weights_as_inputs"),
    )
)


def keywords(options: argparse.Namespace) -> dict[str, Any]:
    """Return from parsed arguments the keywords of functions that lower or export, as far as the command has them."""
    limits = Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})
    return {name: value for name, value in vars(options).items() if name in _KEYWORDS} | {"limits": limits}


def call(
    function: Callable[..., R], source: Path, options: argparse.Namespace, **more: Any
) -> tuple[R, list[Verification]]:
    """Call a function from file to file as the options say; return its report, and the proof if there is one."""
    proofs: list[Verification] = []
    given = keywords(options) | more
    return function(source, options.output, on_proven=proofs.append, report_path=options.report, **given), proofs


def require_other_output(options: argparse.Namespace) -> None:
    """Raise `UsageError` if the output is the model itself, not a folder, and --in-place was not given."""
    if is_same_file(options.model, options.output) and not (options.in_place or options.model.is_dir()):
        raise UsageError(
            f"the output '{options.output}' is the model itself: give another name, or replace it with --in-place"
        )
