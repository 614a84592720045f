# SPDX-License-Identifier: Apache-2.0

"""What a node costs: the models that are run, the calls beside them, and what is made of the times."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import overhead_child, question_overhead
from benchmarks.node_models import GRADIENT, POOL, node_feeds, node_model
from poolgrad_lowering.runtime import assignment, create_session


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
