# SPDX-License-Identifier: Apache-2.0

"""Prints lines and tables, with colours on a terminal that shows them. Does not depend on models."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from poolgrad_lowering.diagnostics.printable import printable

_STYLES = {
    "lowered": "32",
    "written": "32",
    "proven": "32",
    "unproven": "33",
    "refused": "33",
    "warning": "33",
    "failed": "31",
    "differs": "31",
    "error": "31;1",
    "header": "1",
}
"""ANSI styles of status words."""


def print_line(text: str) -> None:
    """Print a line, with control characters escaped."""
    print(printable(text))


def print_result(subject: str, result: str, detail: str) -> None:
    """Print a line with a subject, its status word, coloured, and a detail."""
    print(f"{printable(subject)}: {_styled(result, result, sys.stdout)}: {printable(detail)}")


def print_error(text: str) -> None:
    """Print a line to standard error after the command's name; the text before the first colon is coloured."""
    kind, separator, message = text.partition(":")
    styled = _styled(kind, "warning" if kind == "warning" else "error", sys.stderr)
    print(f"poolgrad: {styled}{separator}{message}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data as JSON, formatted like the reports."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns, the last one without padding. Status words are coloured."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, row in enumerate(lines):
        padded = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]
        kinds = ["header"] * len(row) if number == 0 else row
        print("  ".join(_styled(cell, kind, sys.stdout) for cell, kind in zip(padded, kinds, strict=True)))


def _styled(text: str, kind: str, stream: TextIO) -> str:
    return f"\033[{_STYLES[kind]}m{text}\033[0m" if kind in _STYLES and _has_colours(stream) else text


def _has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and NO_COLOR is not set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
