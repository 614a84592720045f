# SPDX-License-Identifier: Apache-2.0

"""The search writes a failing example and ends in time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

from tests.generators import fuzz
from tests.generators.plans import Plan


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
