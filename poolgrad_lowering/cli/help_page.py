# SPDX-License-Identifier: Apache-2.0

"""`poolgrad help`: prints the help of the command line or of one command."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.diagnostics.errors import UsageError
from poolgrad_lowering.diagnostics.text import did_you_mean


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "help",
        help="print this help, or that of a command",
        description="Print the help of the command line, or of one command, as `--help` does.",
        examples=(("poolgrad help", "all commands"), ("poolgrad help lower", "the same as `poolgrad lower --help`")),
    )
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="the command")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    commands = options.parser.commands
    if options.command is None:
        options.parser.print_help()
    elif options.command in commands:
        commands[options.command].print_help()
    else:
        raise UsageError(f"unknown command '{options.command}'{did_you_mean(options.command, commands)}")
    return ExitCode.DONE
