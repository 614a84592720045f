"""Where a release's own kernels are at fault: cases in which a lowered model may do otherwise than its original.

docs/releases.md shows the table, and each row is tested: where a case no longer fails, its row has to go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True)
class Fault:
    """Cases that have `outcome` (`differs`, `fails`, `crashes`) in the releases from `first` to `last`, at `levels`."""

    first: str
    last: str
    cases: Collection[str]
    levels: Collection[str]
    outcome: str
    reason: str

    def covers(self, version: str, level: str) -> bool:
        """Whether a release, at a level, has the fault."""
        return level in self.levels and numbers(self.first) <= numbers(version) <= numbers(self.last)


def numbers(version: str) -> Version:
    return tuple(map(int, version.split(".")[:3]))


FAULTS: tuple[Fault, ...] = ()
