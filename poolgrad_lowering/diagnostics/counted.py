# SPDX-License-Identifier: Apache-2.0

"""Numbers and lists in messages, in correct English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, whose plural ends in -s: `1 anchor`, `2 anchors`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def either(names: Iterable[str]) -> str:
    """Return one or more names as alternatives: `a`, `a or b`, `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more
