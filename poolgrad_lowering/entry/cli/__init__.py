# SPDX-License-Identifier: Apache-2.0

"""The command `poolgrad`: reads files, writes files and reports. All its data comes from the library's tables.

`arguments` defines what a command is, `exit_codes` the exit codes. A command imports what it needs when it runs:
`--help` must not import onnx. Of the commands' modules only that of the given command is imported, if it needs no
other.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from poolgrad_lowering.entry.cli import streams
from poolgrad_lowering.entry.cli.arguments import Command, add_arguments, output_options
from poolgrad_lowering.entry.cli.console import print_error
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.parser import Parser
from poolgrad_lowering.model.diagnostics.errors import PoolgradError, VerificationError
from poolgrad_lowering.model.diagnostics.version import __version__

_ABOUT = "about"
"""The module of the commands that read the parsers of the others."""

_MODULES = {
    "lower": "lower",
    "lower-artifacts": "lower",
    "export-atc": "exports",
    "export-cann": "exports",
    "export-torch": "export_torch",
    "inspect": "lower",
    "verify": "verify",
    "patterns": "listing",
    "targets": "listing",
    "doctor": "backends",
    "self-test": "backends",
    "completion": _ABOUT,
    "help": _ABOUT,
}
"""The commands, in the order of the help, with their modules."""

_COLLECTED = 100_000
"""The objects after which Python's cyclic collector runs: importing makes many, and a command little garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process, which ends then) and return its exit code."""
    streams.prepare()
    if arguments is None:
        gc.set_threshold(_COLLECTED)
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        streams.discard_output()
        return ExitCode.DONE
    except OSError as error:
        if error.filename is not None:
            raise
        streams.discard_output()
        print_error(f"error: cannot write to standard output: {error.strerror}")
        return ExitCode.BAD_INPUT
    finally:
        if arguments is None:
            gc.freeze()  # the process ends, and what it holds need not be searched for garbage


def _run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors of the package are printed."""
    first = arguments[0] if arguments else None
    parser = build_parser(first, whole=first == "completion" or "--help-all" in arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return ExitCode.BAD_INPUT
    options = parser.parse_args(arguments)
    options.given_output = getattr(options, "output", None)
    shown: Callable[[str], str] = str
    try:
        streams.configure_log(verbose=options.verbose, quiet=options.quiet)
        with streams.as_files(options) as shown:
            return int(options.run(options))
    except VerificationError as error:
        print_error(f"verify: {shown(str(error))}; no model written")
        return ExitCode.FAILED
    except PoolgradError as error:
        print_error(f"error: {shown(str(error))}")
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt as interrupt:
        print_error(": ".join(filter(None, ("interrupted", str(interrupt)))))
        return ExitCode.INTERRUPTED


def build_parser(given: str | None = None, *, whole: bool = True) -> Parser:
    """Return the parser of the whole command line, or of that with one command only if `given` is its name.

    Its help has rare commands and arguments too if it is `whole`.
    """
    parser = Parser(
        prog="poolgrad",
        description="Lower gradients of pools in ONNX training graphs to Ascend NPU operators.",
        examples=(
            ("poolgrad inspect training.onnx", "list what would be lowered, what not, and why"),
            ("poolgrad lower training.onnx -o lowered.onnx", "write the lowered model"),
            ("poolgrad verify training.onnx lowered.onnx", "prove that both compute the same"),
        ),
    )
    parser.add_argument("--version", action="version", version=f"poolgrad {__version__}")
    parser.add_argument("--help-all", action="help", help="as --help, with all commands")
    add_arguments(parser, output_options(default=True), whole=whole)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for name in [given] if given is not None and _MODULES.get(given, _ABOUT) != _ABOUT else _MODULES:
        command: Command = import_module(f"{__name__}.{_MODULES[name]}").COMMANDS[name]
        listed: dict[str, Any] = {} if command.is_rare and not whole else {"help": command.help}
        added = commands.add_parser(name, description=command.description, examples=command.examples, **listed)
        add_arguments(added, (*command.arguments, *output_options(default=False)), whole=whole)
        added.set_defaults(run=command.run, parser=parser)
    return parser
