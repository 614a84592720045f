# SPDX-License-Identifier: Apache-2.0

"""Formats tables of the page and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def seconds(timing: Mapping[str, Any], unit: float = 1.0, digits: int = 3) -> str:
    """The median of a timing as text. `unit` is the unit in seconds."""
    return f"{timing['median'] / unit:.{digits}f}"


def grouped(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """The rows with an empty first cell where it is that of the row before."""
    listed, before = [], None
    for first, *others in rows:
        listed.append(["" if first == before else first, *others])
        before = first
    return listed


def memory(peaks: Mapping[str, float] | None) -> str:
    """The peak memory of a process, in brackets that after its imports, in MiB; empty if it was not measured."""
    return "" if peaks is None else f"{peaks['peak']:.0f} ({peaks['imported']:.0f})"
