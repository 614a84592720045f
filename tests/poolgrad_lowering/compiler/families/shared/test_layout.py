# SPDX-License-Identifier: Apache-2.0

"""What lies behind Transposes, held against numpy's transpose."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poolgrad_lowering.compiler.families.shared.matching import Arranged, arranged
from poolgrad_lowering.model.ir.dims import channels_to_last, channels_to_second
from tests.pool_graphs import main_value, parse


def behind(nodes: str, rank: int = 3) -> tuple[str, tuple[int, ...]]:
    _, value = main_value(parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}"), "Y")
    found = arranged(value, rank)
    return found.value.name, found.axes


@pytest.mark.parametrize(("first", "second"), list(itertools.product(itertools.permutations(range(3)), repeat=2)))
def test_two_transposes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    nodes = f"t = Transpose<perm = {list(first)}>(X) Y = Transpose<perm = {list(second)}>(t)"
    name, axes = behind(nodes)
    x = np.arange(24).reshape(2, 3, 4)
    assert name == "X"
    assert np.array_equal(x.transpose(axes), x.transpose(first).transpose(second))


def test_without_a_permutation_axes_are_reversed() -> None:
    assert behind("i = Identity(X) Y = Transpose(i)") == ("X", (2, 1, 0))


@pytest.mark.parametrize(
    "nodes",
    ["t = Relu(X) Y = Identity(t)", "t = Transpose<perm = [0, 1]>(X) Y = Identity(t)"],
    ids=["another_operator", "not_a_permutation"],
)
def test_anything_else_ends_it(nodes: str) -> None:
    assert behind(nodes) == ("t", (0, 1, 2))


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_channels(rank: int) -> None:
    x = np.zeros(range(2, 2 + rank))
    assert x.transpose(channels_to_second(rank)).shape == (2, rank + 1, *range(3, rank + 1))
    assert x.transpose(channels_to_second(rank)).transpose(channels_to_last(rank)).shape == x.shape


def test_transposed() -> None:
    _, value = main_value(parse("g (float[2,3,4] X) => (Y) { Y = Identity(X) }"), "X")
    assert Arranged(value, (2, 0, 1)).transposed([1, 2, 0]) == Arranged(value, (0, 1, 2))
