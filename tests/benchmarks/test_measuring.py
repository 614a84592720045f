# SPDX-License-Identifier: Apache-2.0

"""Timings by hand: medians, quartiles, ratios within rounds, and whose turn it is."""

from __future__ import annotations

from benchmarks.measuring import Timing, interleaved


def test_a_ratio_is_taken_within_the_rounds() -> None:
    slow, fast = Timing((2.0, 20.0, 3.0)), Timing((1.0, 10.0, 1.0))
    assert slow.ratio_to(fast) == 2.0
    assert (slow.median, slow.quartiles) == (3.0, (2.5, 11.5))


def test_one_round_is_its_own_quartiles() -> None:
    assert Timing((4.0,)).to_dict() == {"median": 4.0, "low": 4.0, "high": 4.0, "rounds": 1}


def test_variants_take_turns() -> None:
    called: list[str] = []
    timings = interleaved({name: lambda name=name: called.append(name) for name in "ab"}, 2)
    assert called == ["a", "b", "a", "b", "b", "a"]
    assert [len(timing.seconds) for timing in timings.values()] == [2, 2]
