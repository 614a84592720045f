# SPDX-License-Identifier: Apache-2.0

"""Tables of the page, and how their cells are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def seconds(timing: Mapping[str, Any], unit: float = 1.0, digits: int = 3) -> str:
    """Median and quartiles of a timing, in seconds or in a unit of so many seconds."""
    median, low, high = (f"{timing[name] / unit:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median} ({low}–{high})"


def memory(peaks: Mapping[str, float] | None) -> str:
    """The peak of a process in MiB, and what was there after importing; nothing where it was not taken."""
    return "" if peaks is None else f"{peaks['peak']:.0f} (imported: {peaks['imported']:.0f})"
