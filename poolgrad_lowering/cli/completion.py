"""`poolgrad completion`: a script with which a shell completes the command's words. Written by shtab."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode
from poolgrad_lowering.diagnostics.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script with which a shell completes commands, options and file names.",
        examples=(
            ('eval "$(poolgrad completion bash)"', "in ~/.bashrc"),
            ("poolgrad completion zsh > ~/.zfunc/_poolgrad", "where ~/.zfunc is in fpath"),
            ("poolgrad completion fish > ~/.config/fish/completions/poolgrad.fish", "where fish looks"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        import shtab  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UsageError(
            "completion scripts are written by shtab: pip install poolgrad-lowering[completion]"
        ) from error
    parser = options.parser
    for command in parser.commands.values():
        for argument in command.arguments:
            if argument.type is Path:
                argument.complete = shtab.FILE
    print(shtab.complete(parser, options.shell))
    return ExitCode.DONE
