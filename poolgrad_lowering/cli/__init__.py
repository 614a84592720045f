# SPDX-License-Identifier: Apache-2.0

"""The command `poolgrad`: reads files, writes files and reports. All its data comes from the library's tables.

One module per command; `exit_codes` defines the exit codes. A command imports what it needs when it runs: `--help` must
not import onnx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from poolgrad_lowering.cli import (
    atc_plugin,
    completion,
    doctor,
    export_atc,
    export_cann,
    export_torch,
    help_page,
    inspect,
    logs,
    lower,
    lower_artifacts,
    patterns,
    self_test,
    streams,
    targets,
    verify,
)
from poolgrad_lowering.cli.arguments import add_output_options
from poolgrad_lowering.cli.console import print_error
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.parser import Parser
from poolgrad_lowering.diagnostics.errors import PoolgradError, VerificationError
from poolgrad_lowering.version import __version__

_COMMANDS = (
    lower,
    lower_artifacts,
    export_atc,
    export_cann,
    atc_plugin,
    export_torch,
    inspect,
    verify,
    patterns,
    targets,
    doctor,
    self_test,
    completion,
    help_page,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's arguments) and return its exit code."""
    streams.prepare()
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


def _run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors of the package are printed."""
    parser = build_parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return ExitCode.BAD_INPUT
    options = parser.parse_args(arguments)
    options.given_output = getattr(options, "output", None)
    shown: Callable[[str], str] = str
    try:
        logs.configure(verbose=options.verbose, quiet=options.quiet)
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


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="poolgrad",
        description="Lower max-pooling gradients in ONNX training graphs to Ascend NPU operators.",
        examples=(
            ("poolgrad inspect training.onnx", "list what would be lowered, what not, and why"),
            ("poolgrad lower training.onnx -o lowered.onnx", "write the lowered model"),
            ("poolgrad verify training.onnx lowered.onnx", "prove that both compute the same"),
        ),
    )
    parser.add_argument("--version", action="version", version=f"poolgrad {__version__}")
    add_output_options(parser, default=True)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for command in _COMMANDS:
        added = command.add(commands)
        add_output_options(added, default=False)
        added.set_defaults(run=command.run, parser=parser)
    return parser
