# SPDX-License-Identifier: Apache-2.0

"""One model, one result: whatever the process's hash seed, and whatever the interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import poolgrad_lowering
import poolgrad_lowering.patterns
from tests.harness.processes import environment

FOLDER = Path(__file__).parents[1] / "harness" / "determinism"
BUILT = Path(__file__).parents[2] / "models" / "built"
FEW = [BUILT / name for name in ("torch/resnet_stem.onnx", "ort/spatial_pyramid.onnx", "ort/nested.onnx")]
EVERY = sorted(BUILT.rglob("*.onnx"))
PYTHONS = os.environ.get("POOLGRAD_PYTHONS", "").split()
"""Interpreters that have what the package needs, and not the package."""


def fingerprints(models: list[Path], python: str = sys.executable, **variables: str) -> dict[str, Any]:
    """What a new process makes of models."""
    command = [python, str(FOLDER / "fingerprints.py"), *map(str, models)]
    process = subprocess.run(command, env=environment() | variables, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(process.stdout)
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return fingerprints(EVERY, PYTHONHASHSEED="0")


def test_every_model_has_a_fingerprint(expected: dict[str, Any]) -> None:
    assert expected.keys() == {str(path) for path in EVERY}
    assert all("sha256" in found for found in expected.values())
    assert len({found["sha256"] for found in expected.values()}) > len(EVERY) // 2


def test_hash_seeds(expected: dict[str, Any]) -> None:
    for seed in range(1, 4):
        assert fingerprints(FEW, PYTHONHASHSEED=str(seed)) == {str(path): expected[str(path)] for path in FEW}


@pytest.mark.long
def test_many_hash_seeds(expected: dict[str, Any]) -> None:
    for seed in range(4, 24):
        assert fingerprints(EVERY, PYTHONHASHSEED=str(seed)) == expected


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiler as an installation has it."""
    home = tmp_path_factory.mktemp("package")
    for module, place in ((poolgrad_lowering, "."), (poolgrad_lowering.patterns, "patterns")):
        shutil.copytree(Path(str(module.__file__)).parent, home / "poolgrad_lowering" / place, dirs_exist_ok=True)
    return home


@pytest.mark.long
@pytest.mark.skipif(not PYTHONS, reason="make test-determinism names other interpreters")
@pytest.mark.parametrize("python", PYTHONS)
def test_other_interpreters(python: str, package: Path, expected: dict[str, Any]) -> None:
    assert fingerprints(EVERY, python, PYTHONPATH=str(package)) == expected


def test_a_comparison_names_what_changed(tmp_path: Path) -> None:
    anchor = {"name": "dX", "scope": "main", "status": "lowered"}
    same = {"sha256": "a", "anchors": [anchor]}
    bytes_only = {"sha256": "b", "anchors": [anchor]}
    refused = {"sha256": "c", "anchors": [anchor | {"status": "refused", "code": "target"}]}
    (tmp_path / "before.json").write_text(
        json.dumps({"x/same": same, "x/bytes": same, "x/verdict": same, "x/gone": same})
    )
    (tmp_path / "after.json").write_text(json.dumps({"x/same": same, "x/bytes": bytes_only, "x/verdict": refused}))
    command = [sys.executable, str(FOLDER / "compare.py"), str(tmp_path / "before.json"), str(tmp_path / "after.json")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stdout.splitlines() == [
        "x/bytes: other bytes, the same verdicts",
        "x/gone: only before",
        "x/verdict: dX in main: status lowered → refused, code None → target",
        "4 models: 1 the same, 3 not",
    ]
