# SPDX-License-Identifier: Apache-2.0

"""A command-line parser that suggests the closest known word for a mistyped one."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from poolgrad_lowering.model.diagnostics.text import did_you_mean, printable


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` with suggestions and with examples, pairs of a command line and its meaning."""

    def __init__(self, *, examples: Sequence[tuple[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self.examples = examples
        self._given: list[str] = []

    @property
    def arguments(self) -> list[argparse.Action]:
        """All arguments except the command's name, in the order of the help."""
        return [action for action in self._actions if not isinstance(action.choices, dict)]

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands, by name."""
        choices = (action.choices for action in self._actions if isinstance(action.choices, dict))
        return {name: parser for parsers in choices for name, parser in parsers.items()}

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As in argparse; also stores the words for `error`."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """As in argparse, with the examples at the end, in the terminal's width."""
        width = shutil.get_terminal_size().columns - 2  # as in argparse
        return f"{super().format_help()}\nexamples:\n{_laid_out(self.examples, width)}"

    def error(self, message: str) -> NoReturn:
        """Print the message with suggestions for unknown words, and exit with 2."""
        hints = [hint for word in self._given if (hint := self._hint(word.partition("=")[0]))]
        super().error(printable(message + "".join(hints)))

    def _print_message(self, message: str, file: Any = None) -> None:
        """As in argparse, which hides errors of the stream; the command reports them."""
        (file or sys.stderr).write(message)

    def _hint(self, word: str) -> str:
        commands = self.commands
        if word.startswith("--"):
            chosen = next((commands[given] for given in self._given if given in commands), self)
            known = {*self._option_string_actions, *chosen._option_string_actions}  # noqa: SLF001 - the same class
            return "" if any(name.startswith(word) for name in known) else did_you_mean(word, known)
        is_command = next((given for given in self._given if not given.startswith("-")), None) == word
        return did_you_mean(word, commands) if is_command and word not in commands else ""


def _laid_out(examples: Sequence[tuple[str, str]], width: int) -> str:
    """Return a line for each example, or if one is too long, each meaning wrapped below its command line."""
    longest = max(len(line) for line, _ in examples)
    rows = [f"  {line.ljust(longest)}  {what}" for line, what in examples]
    if max(map(len, rows)) > width:
        rows = [f"  {line}\n{textwrap.indent(textwrap.fill(what, width - 6), ' ' * 6)}" for line, what in examples]
    return "".join(f"{row}\n" for row in rows)
