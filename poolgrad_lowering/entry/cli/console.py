# SPDX-License-Identifier: Apache-2.0

"""Prints lines and tables, with colours on a terminal that shows them. Does not depend on models."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, TextIO

from poolgrad_lowering.model.diagnostics.text import printable

_STYLES = {
    "lowered": "32",
    "written": "32",
    "proven": "32",
    "unproven": "33",
    "refused": "33",
    "unrelated": "90",
    "warning": "33",
    "failed": "31",
    "differs": "31",
    "error": "31;1",
    "header": "1",
}
"""ANSI styles of status words."""


_GAP = "  "
"""What separates two columns."""

_NARROWEST = 24
"""The smallest common limit of the columns' widths, whatever the terminal's width."""


def print_line(text: str) -> None:
    """Print a line, with control characters escaped."""
    print(printable(text))


def print_result(subject: str, result: str, detail: str) -> None:
    """Print a line with a subject, its status word, coloured, and a detail."""
    print(f"{printable(subject)}: {_styled(result, result, sys.stdout)}: {printable(detail)}")


def print_error(text: str) -> None:
    """Print a line to standard error after the command's name; the text before the first colon is coloured."""
    kind, separator, message = printable(text).partition(":")
    styled = _styled(kind, "warning" if kind == "warning" else "error", sys.stderr)
    print(f"poolgrad: {styled}{separator}{message}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data as JSON, formatted like the reports."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns, the last one without padding. Status words are coloured.

    On a terminal the cells of wide columns are wrapped, so that a row is not wider than the terminal.
    """
    table = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = _widths(list(zip(*table, strict=True)))
    for number, row in enumerate(table):
        kinds = ["header"] * len(row) if number == 0 else row
        for cells in zip_longest(*map(_wrapped, row, widths), fillvalue=""):
            padded = [*(cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)), cells[-1]]
            print(_GAP.join(_styled(cell, kind, sys.stdout) for cell, kind in zip(padded, kinds, strict=True)).rstrip())


def _widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths of columns: in full, or on a terminal at most a common limit, but never less than a word."""
    full = [max(map(len, column)) for column in columns]
    if not sys.stdout.isatty():
        return full
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    free = shutil.get_terminal_size().columns - len(_GAP) * (len(columns) - 1)
    limits = range(max(full), _NARROWEST, -1)
    fitting = (_limited(full, words, limit) for limit in limits)
    return next((widths for widths in fitting if sum(widths) <= free), _limited(full, words, _NARROWEST))


def _limited(full: Sequence[int], words: Sequence[int], limit: int) -> list[int]:
    return [max(word, min(width, limit)) for width, word in zip(full, words, strict=True)]


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a cell; a text that fits is one line, with all its spaces."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _styled(text: str, kind: str, stream: TextIO) -> str:
    return f"\033[{_STYLES[kind]}m{text}\033[0m" if kind in _STYLES and text.strip() and _has_colours(stream) else text


def _has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and NO_COLOR is not set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_WIDTH = 24


class ProgressBar:
    """Shows the number of finished items in one line, which is overwritten and finally cleared."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._shown = stream.isatty() and not quiet

    def __call__(self, done: int, total: int, name: str) -> None:
        """Show that `done` of `total` items are finished and that `name` is the last; clear the bar at the end."""
        if not self._shown:
            return
        self.clear()
        if done < total:
            filled = "#" * (_WIDTH * done // total)
            self._stream.write(f"[{filled:<{_WIDTH}}] {done}/{total} {printable(name[-40:])}")
        self._stream.flush()

    def clear(self) -> None:
        """Clear the bar, so that other lines can be printed."""
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
