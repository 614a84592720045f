# SPDX-License-Identifier: Apache-2.0

"""The search writes a failing example and ends in time, however slow an example is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators import fuzz
from tests.generators.fuzz import QUIET
from tests.generators.plans import Plan
from tests.generators.shrinking import SECONDS, bound_shrinking


def test_time_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--minutes", "0", "--folder", str(tmp_path / "fuzz")]) == 0
    assert not (tmp_path / "fuzz").exists()
    assert not capsys.readouterr().out


def test_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in all graphs with a Constant node is reduced to a graph with one input and one pool."""

    def mistaken(plan: Plan, counts: Counter[str]) -> None:
        counts["graphs"] += 1
        assert not plan.constant_nodes, "a constant node"

    monkeypatch.setattr(fuzz, "check_plan", mistaken)
    assert fuzz.main(["--minutes", "5", "--folder", str(tmp_path)]) == 1
    told = (tmp_path / "failure.txt").read_text(encoding="utf-8")
    assert "constant_nodes=True" in told
    assert "AssertionError: a constant node" in told
    plan = told.splitlines()[1]
    assert plan.count("Root(") == plan.count("Site(") == 1
    assert len(onnx.load(tmp_path / "model.onnx").graph.output) == 1
    assert "1  failures" in capsys.readouterr().out


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
