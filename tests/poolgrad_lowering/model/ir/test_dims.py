# SPDX-License-Identifier: Apache-2.0

"""Dimensions are products; what they prove holds for every value of their symbols."""

from __future__ import annotations

import math

import pytest

from poolgrad_lowering.model.ir.dims import (
    Dim,
    differ,
)

TEXTS = ["1", "16", "N", "16*N", "N*16", "N * H", "N*N", "2*3*H", "0*N"]


def value_of(dim: Dim, symbols: dict[str, int]) -> int:
    return dim.coefficient * math.prod(symbols[symbol] for symbol in dim.symbols)


@pytest.mark.parametrize("text", TEXTS)
def test_parse_is_arithmetic(text: str) -> None:
    symbols = {"N": 3, "H": 5}
    assert value_of(Dim.parse(text), symbols) == eval(text, {}, symbols)


def test_differ_needs_proof() -> None:
    n, h = Dim.parse("N"), Dim.parse("H")
    assert differ((n,), (n, n))
    assert differ((n, Dim(2)), (n, Dim(3)))
    assert differ((Dim(2),), ())
    for left, right in (((n, Dim(2)), (h, Dim(2))), ((n,), (Dim(2),)), ((Dim(2), n), (Dim(2), n)), ((), ())):
        assert not differ(left, right)
        assert not differ(right, left)
