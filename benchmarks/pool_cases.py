# SPDX-License-Identifier: Apache-2.0

"""The pools that kernels are measured on: shapes and windows. Knows nothing of the libraries that run them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolCase:
    """A max pool over x of `shape` [N, C, *spatial]. With `counts` it is an adaptive pool with these output sizes."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The shape and the windows as text."""
        shape = "×".join(map(str, self.shape))
        if self.counts:
            return f"{shape}, adaptive {'×'.join(map(str, self.counts))}"
        words = (f"{letter} {_short(values)}" for letter, values in self._lists() if any(values))
        return f"{shape}, {', '.join(words)}"

    @property
    def axes(self) -> int:
        """The number of spatial axes."""
        return len(self.shape) - 2

    def _lists(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return (("k", self.kernel), ("s", self.stride), ("p", self.padding))


def _short(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"({', '.join(map(str, values))})"


STEM = PoolCase((8, 64, 112, 112), (3, 3), (2, 2), (1, 1))
"""The pool after the first convolution of a ResNet."""

CASES = (
    STEM,
    PoolCase((8, 256, 28, 28), (2, 2), (2, 2), (0, 0)),
    PoolCase((2, 64, 16, 56, 56), (1, 2, 2), (1, 2, 2), (0, 0, 0)),
    PoolCase((32, 128, 1, 400), (1, 3), (1, 3), (0, 0)),
    PoolCase((8, 256, 14, 14), counts=(7, 7)),
    PoolCase((8, 256, 15, 13), counts=(7, 7)),
    PoolCase((8, 128, 28, 28), (5, 5), (1, 1), (2, 2)),
)
