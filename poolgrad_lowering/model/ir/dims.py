# SPDX-License-Identifier: Apache-2.0

"""Tensor dimensions as exact products of integers and named symbols.

A `Dim` is `coefficient · symbol · symbol …`: enough to prove that `[16·N, 25]` is a reshape of `[N, 16, 5, 5]`. Sums
and roundings are opaque symbols: two of them are equal only if their names are equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

_FACTOR = re.compile(r"[A-Za-z_]\w*|\d+")


class Dim(NamedTuple):
    """A dimension: an integer factor times named symbols (sorted, repeated for powers)."""

    coefficient: int
    symbols: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Dim:
        """The dimension of a `dim_param` such as `N`, `16*N` or `a*b`; any other expression is one opaque symbol."""
        factors = [factor.strip() for factor in text.split("*")]
        if not all(_FACTOR.fullmatch(factor) for factor in factors):
            return cls(1, (text,))
        numbers = [int(factor) for factor in factors if factor.isdigit()]
        return cls(math.prod(numbers), tuple(sorted(factor for factor in factors if not factor.isdigit())))

    @property
    def static(self) -> int | None:
        """The integer value, or None if the dimension has a symbol."""
        return self.coefficient if not self.symbols or self.coefficient == 0 else None

    def divided_by(self, other: Dim) -> Dim | None:
        """The exact quotient, or None if it is not a product of an integer and symbols."""
        if other.coefficient == 0 or self.coefficient % other.coefficient:
            return None
        symbols = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in symbols:
                return None
            symbols.remove(symbol)
        return Dim(self.coefficient // other.coefficient, tuple(symbols))

    def at_most(self, most: int) -> Dim:
        """The smaller one of a size with symbols and a number larger than 1, a symbol of its own."""
        return Dim(1, (f"min({self}, {most})",))

    def covers(self, other: Dim) -> bool:
        """Whether the other size is this one or `at_most` a number of it.

        The two broadcast only if they are equal, because the number is larger than 1.
        """
        return other == self or (len(other.symbols) == 1 and str(other).startswith(f"min({self}, "))

    def __str__(self) -> str:
        factors = [str(self.coefficient)] if self.coefficient != 1 or not self.symbols else []
        return "*".join([*factors, *self.symbols])


Shape = tuple[Dim, ...]


def is_static(shape: Shape) -> bool:
    """Whether all sizes are numbers."""
    return None not in [dim.static for dim in shape]


def static_dims(sizes: Iterable[int]) -> Shape:
    """The shape with these numbers as its sizes."""
    return tuple(map(Dim, sizes))


def size(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape: the product of its sizes."""
    factors = list(dims)
    symbols = sorted([symbol for dim in factors for symbol in dim.symbols])
    return Dim(math.prod([dim.coefficient for dim in factors]), tuple(symbols))


def fits_reshape(shape: Shape) -> bool:
    """Whether a Reshape to the shape can be written with constants: at most one size is symbolic."""
    return sum(dim.static is None for dim in shape) <= 1


def channels_to_second(rank: int) -> list[int]:
    """The permutation from (N, spatial…, C) to (N, C, spatial…)."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_to_last(rank: int) -> list[int]:
    """The permutation from (N, C, spatial…) to (N, spatial…, C)."""
    return [0, *range(2, rank), 1]


def differ(left: Shape, right: Shape) -> bool:
    """Whether two shapes can be proven unequal: other rank, or an axis with two different integers."""
    if left == right or len(left) != len(right):
        return left != right
    pairs = ((one.static, other.static) for one, other in zip(left, right, strict=True))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


class Shown(NamedTuple):
    """A shape that is formatted as text on demand: `[2, N, 7]`, or `unknown`."""

    shape: Shape | None

    def __str__(self) -> str:
        return "unknown" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
