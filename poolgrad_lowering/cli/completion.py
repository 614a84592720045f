# SPDX-License-Identifier: Apache-2.0

"""`poolgrad completion`: prints a completion script for a shell, which shtab makes from the command line's parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.cli.parser import Parser
from poolgrad_lowering.cli.streams import model_file

SHELLS = ("bash", "zsh", "fish")


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete commands, options and file names.",
        examples=(
            ('eval "$(poolgrad completion bash)"', "in ~/.bashrc"),
            ("poolgrad completion zsh > ~/.zfunc/_poolgrad", "if ~/.zfunc is in fpath"),
            ("poolgrad completion fish > ~/.config/fish/completions/poolgrad.fish", "the folder that fish reads"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    import shtab  # noqa: PLC0415 - only this command needs it

    from poolgrad_lowering.targets.table import TARGETS  # noqa: PLC0415 - as above

    for argument in _arguments(options.parser):
        if argument.type in (Path, model_file):
            argument.complete = shtab.FILE  # type: ignore[attr-defined] # shtab reads it
        elif argument.dest == "target":
            argument.choices = [name for target in TARGETS.values() for name in (target.name, *target.socs)]
    print(shtab.complete(options.parser, options.shell))
    return ExitCode.DONE


def _arguments(parser: Parser) -> Iterator[argparse.Action]:
    """Yield the arguments that stand before a command, and those of every command."""
    yield from parser.arguments
    for command in parser.commands.values():
        yield from command.arguments
