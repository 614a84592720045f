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
    """Median and quartiles of a timing as text. `unit` is the unit in seconds."""
    median, low, high = (f"{timing[name] / unit:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median} ({low}–{high})"


def memory(peaks: Mapping[str, float] | None) -> str:
    """The peak memory of a process and that after its imports, in MiB, as text; empty if it was not measured."""
    return "" if peaks is None else f"{peaks['peak']:.0f} (imported: {peaks['imported']:.0f})"
