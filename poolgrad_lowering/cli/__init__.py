"""The command `poolgrad`: files in, files and reports out. Everything it knows comes from the library's tables.

One module per command; `exit_codes` says how each ends. Nothing that a command needs is loaded before it runs:
`--help` must not load onnx.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from poolgrad_lowering.cli import (
    completion,
    doctor,
    inspect,
    logs,
    lower,
    lower_artifacts,
    patterns,
    self_test,
    targets,
    verify,
)
from poolgrad_lowering.cli.arguments import add_output_options
from poolgrad_lowering.cli.console import complain
from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.parser import Parser
from poolgrad_lowering.diagnostics.errors import PoolgradError, VerificationError
from poolgrad_lowering.version import __version__

_COMMANDS = (lower, lower_artifacts, inspect, verify, patterns, targets, doctor, self_test, completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of a model may not be in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        logs.configure(verbose=options.verbose, quiet=options.quiet)
        code: int = options.run(options)
        sys.stdout.flush()
    except VerificationError as error:
        complain(f"verify: {error}; no model written")
        return ExitCode.FAILED
    except PoolgradError as error:
        complain(f"error: {error}")
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return ExitCode.DONE
    return code


def build_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="poolgrad",
        description="Lower max-pooling gradients in ONNX training graphs to Ascend NPU operators.",
        examples=(
            ("poolgrad inspect training.onnx", "what would be lowered, what not, and why"),
            ("poolgrad lower training.onnx -o lowered.onnx", "do it"),
            ("poolgrad verify training.onnx lowered.onnx", "show that both compute the same"),
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
