# SPDX-License-Identifier: Apache-2.0

"""The runner: a row for every case, level and model, also where a model is wrong, fails, or ends the process.

An `onnxruntime` of the tests' own reads from a model's file what becomes of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.harness.releases import runner
from tests.harness.releases.runner import LEVELS, difference

ONNXRUNTIME = """
import enum, os, types
import numpy as np
GraphOptimizationLevel = enum.Enum("Levels", "ORT_DISABLE_ALL ORT_ENABLE_BASIC ORT_ENABLE_EXTENDED")
SessionOptions = types.SimpleNamespace
def set_default_logger_severity(level): pass
class InferenceSession:
    def __init__(self, path, options, providers):
        self.does, self.runs = open(path).read(), 0
        if self.does == "fail":
            raise ValueError("no such operator")
        if self.does == "fail if optimised" and not hasattr(options, "graph_optimization_level"):
            raise ValueError("no such node")
        if self.does == "crash":
            os.kill(os.getpid(), 11)
    def get_inputs(self): return [types.SimpleNamespace(name="x")]
    def get_outputs(self): return [types.SimpleNamespace(name="y")]
    def run(self, names, feeds):
        self.runs += 1
        changes = self.does == "change once" and self.runs == 2
        return [feeds["x"] + np.float32(changes or self.does == "differ")]
"""


def rows(folder: Path, *cases: tuple[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """The outcomes by case and level of an original and lowered models, each told what it does."""
    (folder / "onnxruntime.py").write_text(ONNXRUNTIME, encoding="utf-8")
    np.savez(folder / "feeds.npz", x=np.arange(3, dtype=np.float32))
    listed = []
    for number, (original, lowered) in enumerate(cases):
        names = [f"{number}-{position}" for position in range(len(lowered) + 1)]
        for name, does in zip(names, (original, *lowered), strict=True):
            (folder / name).write_text(does, encoding="utf-8")
        files = {"original": names[0], "recorded": None, "feeds": "feeds.npz", "lowered": dict.fromkeys(names[1:])}
        listed.append({"name": str(number), **files})
    (folder / "cases.json").write_text(json.dumps(listed), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, runner.__file__, folder, folder / "rows"], check=True, env=environment)
    found: dict[str, dict[str, list[str]]] = {}
    for line in (folder / "rows").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["case"], {}).setdefault(row["level"], []).append(row["outcome"])
    return found


def at_every_level(outcomes: list[str]) -> dict[str, list[str]]:
    return dict.fromkeys(LEVELS, outcomes)


def test_every_outcome(tmp_path: Path) -> None:
    lowered = ["same", "differ", "fail", "change once", "same"]
    found = rows(tmp_path, ("same", lowered))
    assert found == {"0": at_every_level(["runs", "same", "differs", "fails", "differs", "same"])}


def test_a_crash_costs_one_model(tmp_path: Path) -> None:
    found = rows(tmp_path, ("same", ["same", "crash", "same", "crash"]), ("same", ["same"]))
    assert found["0"] == at_every_level(["runs", "same", "crashes", "same", "crashes"])
    assert found["1"] == at_every_level(["runs", "same"])


@pytest.mark.parametrize(("does", "outcome"), [("fail", "fails"), ("crash", "crashes"), ("change once", "unstable")])
def test_nothing_is_asked_where_the_original_does_not_run(does: str, outcome: str, tmp_path: Path) -> None:
    assert rows(tmp_path, (does, ["same"])) == {"0": at_every_level([outcome])}


def test_levels_are_set(tmp_path: Path) -> None:
    found = rows(tmp_path, ("same", ["fail if optimised"]))["0"]
    assert {level: outcomes[1] for level, outcomes in found.items()} == {
        **at_every_level("same"),
        "default": "fails",
    }


def test_differences_are_those_of_bits() -> None:
    zeros = {"y": np.zeros(2, np.float32)}
    assert not difference({"y": np.array([0.0, np.nan], np.float32)}, {"y": np.array([0.0, -np.nan], np.float32)})
    assert difference({"y": np.array([0.0, -0.0], np.float32)}, zeros) == (
        "y: 1 of 2 elements differ, [1] -0.0, expected 0.0"
    )
    assert difference({"y": np.zeros(2)}, zeros) == "y: float64[2], expected float32[2]"
    assert difference({}, zeros) == "outputs [], expected ['y']"
