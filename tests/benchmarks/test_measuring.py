# SPDX-License-Identifier: Apache-2.0

"""What is made of timings, the floor of the kernels' times, and what a node costs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import overhead_child, question_overhead
from benchmarks.measuring import Timing, interleaved
from benchmarks.memory_floor import MemoryFloor
from benchmarks.node_models import GRADIENT, POOL, node_feeds, node_model
from poolgrad_lowering.runtime import assignment, create_session


def test_a_ratio_is_taken_within_the_rounds() -> None:
    slow, fast = Timing((2.0, 20.0, 3.0)), Timing((1.0, 10.0, 1.0))
    assert slow.ratio_to(fast) == 2.0
    assert (slow.median, slow.quartiles) == (3.0, (2.5, 11.5))


def test_variants_take_turns() -> None:
    called: list[str] = []
    timings = interleaved({name: lambda name=name: called.append(name) for name in "ab"}, 2)
    assert called == ["a", "b", "a", "b", "b", "a"]
    assert [len(timing.seconds) for timing in timings.values()] == [2, 2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_all_of_it_is_moved(tmp_path: Path) -> None:
    source, destination = np.arange(10_000, dtype=np.uint64), np.zeros(6_000, np.uint64)
    floor = MemoryFloor(tmp_path)
    assert floor.move(source, destination) == source.sum()
    assert (destination.view(np.uint8) == 1).all()
    assert floor.of(8 * 1_000, 8 * 10)() == 1_000


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("op_type", [GRADIENT, POOL, "MaxPool", "Relu"])
def test_every_node_hands_on_what_it_gets(op_type: str, parallel: bool) -> None:
    model, feeds = node_model(op_type, 3, [1, 2, 3, 4], parallel=parallel), node_feeds(op_type, [1, 2, 3, 4])
    onnx.checker.check_model(model, full_check=True)
    session = create_session(model, backend="host")
    run_by_provider = [node for node in assignment(session) if node.domain == "npu"]
    assert len(run_by_provider) == (3 if op_type in (GRADIENT, POOL) else 0)
    results = session.run(None, feeds)
    assert len(results) == (3 if parallel else 1)
    for result in results:
        np.testing.assert_array_equal(result, feeds["value"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("mode", question_overhead.MODES)
def test_everything_is_timed(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_overhead, "MODES", {mode: question_overhead.MODES[mode]})
    monkeypatch.setattr(question_overhead, "ROUNDS", 1)
    rows = question_overhead.measure(tmp_path)["rows"]
    assert len(rows) == len(overhead_child.CASES)
    for row in rows:
        assert row["run"]["median"] > 0
        assert (row["calls"]["median"] != 0) == (row["elements"] != "none")
        assert row["own"]["median"] == pytest.approx(row["node"]["median"] - row["calls"]["median"])
