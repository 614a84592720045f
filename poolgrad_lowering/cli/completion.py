# SPDX-License-Identifier: Apache-2.0

"""`poolgrad completion`: prints a completion script for a shell."""

from __future__ import annotations

import argparse
from typing import Any

from poolgrad_lowering.cli.exit_codes import ExitCode

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
    from poolgrad_lowering.cli.completion_scripts import SCRIPTS  # noqa: PLC0415 - only this command needs it

    print(SCRIPTS[options.shell](options.parser), end="")
    return ExitCode.DONE
