# SPDX-License-Identifier: Apache-2.0

"""Dimensions are products; what they prove holds for every value of their symbols."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poolgrad_lowering.model.ir.dims import (
    Dim,
    differ,
    size,
)

SYMBOLS = ("N", "H", "seq_len")
TEXTS = ["1", "16", "N", "16*N", "N*16", "N * H", "N*N", "2*3*H", "0*N"]


def value_of(dim: Dim, symbols: dict[str, int]) -> int:
    return dim.coefficient * math.prod(symbols[symbol] for symbol in dim.symbols)


@pytest.mark.parametrize("text", TEXTS)
def test_parse_is_arithmetic(text: str) -> None:
    symbols = {"N": 3, "H": 5}
    assert value_of(Dim.parse(text), symbols) == eval(text, {}, symbols)


@pytest.mark.parametrize("seed", range(20))
def test_quotients_multiply_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (
        Dim(int(rng.integers(0, 13)), tuple(sorted(rng.choice(SYMBOLS, rng.integers(0, 4)).tolist()))) for _ in range(2)
    )
    quotient = left.divided_by(right)
    assert quotient is None or size((quotient, right)) == left
    assert right.coefficient == 0 or size((left, right)).divided_by(right) == left


def test_differ_needs_proof() -> None:
    n, h = Dim.parse("N"), Dim.parse("H")
    assert differ((n,), (n, n))
    assert differ((n, Dim(2)), (n, Dim(3)))
    assert differ((Dim(2),), ())
    for left, right in (((n, Dim(2)), (h, Dim(2))), ((n,), (Dim(2),)), ((Dim(2), n), (Dim(2), n)), ((), ())):
        assert not differ(left, right)
        assert not differ(right, left)
