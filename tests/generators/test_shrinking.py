# SPDX-License-Identifier: Apache-2.0

"""A search that fails ends soon, however slow an example is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.fuzz import QUIET
from tests.generators.shrinking import SECONDS, bound_shrinking


@pytest.fixture
def bound() -> Iterator[float]:
    bound_shrinking(0.5)
    yield 0.5
    bound_shrinking()


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
def test_shrinking_ends(bound: float) -> None:
    """Without the bound, this example becomes smaller for half a minute."""

    @settings(QUIET, derandomize=True)
    @given(st.lists(st.integers(0, 10**9), min_size=30))
    def fails(numbers: list[int]) -> None:
        time.sleep(0.05)
        assert sum(numbers) < 10**8

    began = time.monotonic()
    with pytest.raises(AssertionError):
        fails()
    assert time.monotonic() - began < bound + 3


def test_the_bound_holds_in_all_tests() -> None:
    from hypothesis.internal.conjecture import engine

    assert engine.MAX_SHRINKING_SECONDS == SECONDS
