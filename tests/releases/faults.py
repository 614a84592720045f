# SPDX-License-Identifier: Apache-2.0

"""Where a release of onnxruntime is itself at fault: cases in which a lowered model may do otherwise than its original.

docs/other-tools.md shows the table. Each row is tested: where none of a pattern's cases differs or fails, it has to go.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.harness.releases.runner import LEVELS


@dataclass(frozen=True)
class Fault:
    """Cases, by patterns of their names, in which the releases from `first` to `last` are at fault at some levels."""

    first: str
    last: str
    levels: tuple[str, ...]
    cases: tuple[str, ...]
    seen: str
    reason: str

    def concerns(self, version: str, level: str) -> bool:
        return level in self.levels and _numbers(self.first) <= _numbers(version) <= _numbers(self.last)

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
        LEVELS,
        ("F1 *, -inf",),
        "the gradients of such windows are at other wrong places of dx",
        f"{_NOTHING_GREATER}. `MaxPoolGrad` adds there in the plane before, the lowered model in the same plane.",
    ),
    Fault(
        "1.18.1",
        "1.28.0",
        LEVELS,
        ("F4 *, -inf", "F4 *, NaN", "F6 *, -inf", "F6 *, NaN"),
        "the gradients of planes that begin with −inf or NaN are at wrong places in the original",
        f"{_NOTHING_GREATER}. PyTorch's graph takes the first index of each plane from a pool with windows of one "
        "element, the lowered model from the sizes.",
    ),
    Fault(
        "1.18.1",
        "1.18.1",
        ("disabled",),
        ("F5 *, float32, static, *", "F11a *", "F12 *, one by one", "torch_joint/lenet5__fp16"),
        "a session's first run is right, the second fails or differs",
        "By its memory pattern, a session's second run puts values into memory that is still in use, in models of "
        "ONNX's operators alone too. With `enable_mem_pattern = False` all runs are right.",
    ),
)
