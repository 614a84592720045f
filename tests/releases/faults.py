"""Where a release's own kernels are at fault: cases in which a lowered model may do otherwise than its original.

docs/releases.md shows the table. Each row is tested: it has to go when one of its cases no longer differs or fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Fault:
    """Cases, by patterns of their names, in which the releases from `first` to `last` are at fault at every level."""

    first: str
    last: str
    cases: tuple[str, ...]
    seen: str
    reason: str

    def concerns(self, version: str) -> bool:
        return _numbers(self.first) <= _numbers(version) <= _numbers(self.last)

    def has(self, case: str) -> bool:
        return any(fnmatchcase(case, pattern) for pattern in self.cases)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:3]))


_NOTHING_GREATER = (
    "MaxPool begins with the lowest finite number: a window of −inf or NaN alone has that as its maximum, and as its "
    "index the one before its plane's first element"
)

FAULTS = (
    Fault(
        "1.18.1",
        "1.28.0",
        ("F1 *, -inf",),
        "the gradients of such windows are at other wrong places of dx",
        f"{_NOTHING_GREATER}. `MaxPoolGrad` adds there in the plane before, the lowered model in the same plane.",
    ),
    Fault(
        "1.18.1",
        "1.28.0",
        ("F4 *, -inf", "F4 *, NaN", "F6 *, -inf", "F6 *, NaN"),
        "the gradients of planes that begin with −inf or NaN are at wrong places in the original",
        f"{_NOTHING_GREATER}. PyTorch's graph takes the first index of each plane from a pool with windows of one "
        "element, the lowered model from the sizes.",
    ),
)
