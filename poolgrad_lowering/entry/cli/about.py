# SPDX-License-Identifier: Apache-2.0

"""The commands about the command line itself, which read the parsers of all: `poolgrad help` and `poolgrad completion`.

A completion script for a shell is what shtab makes from the command line's parser.
"""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from poolgrad_lowering.entry.cli.arguments import Command, argument
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.entry.cli.streams import model_file
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.diagnostics.text import did_you_mean

SHELLS = ("bash", "zsh", "fish")


def _complete(options: argparse.Namespace) -> ExitCode:
    import shtab  # noqa: PLC0415 - only this command needs it

    from poolgrad_lowering.dialect.targets import TARGETS  # noqa: PLC0415 - as above

    parsers = (options.parser, *options.parser.commands.values())
    for found in chain.from_iterable(parser.arguments for parser in parsers):
        if found.type in (Path, model_file):
            found.complete = shtab.FILE
        elif found.dest == "target":
            found.choices = [name for target in TARGETS.values() for name in (target.name, *target.socs)]
        elif found.dest == "command":
            found.choices = list(options.parser.commands)
    print(shtab.complete(options.parser, options.shell))
    return ExitCode.DONE


def _help(options: argparse.Namespace) -> ExitCode:
    commands = options.parser.commands
    if options.command is None:
        options.parser.print_help()
    elif options.command in commands:
        commands[options.command].print_help()
    else:
        raise UsageError(f"unknown command '{options.command}'{did_you_mean(options.command, commands)}")
    return ExitCode.DONE


COMMANDS = {
    "completion": Command(
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete commands, options and file names.",
        examples=(
            ('eval "$(poolgrad completion bash)"', "in ~/.bashrc"),
            ("poolgrad completion zsh > ~/.zfunc/_poolgrad", "if ~/.zfunc is in fpath"),
            ("poolgrad completion fish > ~/.config/fish/completions/poolgrad.fish", "the folder that fish reads"),
        ),
        arguments=(argument("shell", choices=SHELLS, help="the shell to complete in"),),
        run=_complete,
        is_rare=True,
    ),
    "help": Command(
        help="print this help, or that of a command",
        description="Print the help of the command line, or of one command, as `--help` does.",
        examples=(("poolgrad help", "all commands"), ("poolgrad help lower", "the same as `poolgrad lower --help`")),
        arguments=(argument("command", nargs="?", metavar="COMMAND", help="the command"),),
        run=_help,
    ),
}
