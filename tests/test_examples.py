# SPDX-License-Identifier: Apache-2.0

"""The programs of `examples/`. Those that need another package run in the tests of the environments that have it."""

from __future__ import annotations

import ast
from pathlib import Path

import onnx
import pytest

import poolgrad_lowering
from tests.harness.examples import FOLDER, run_example

TESTS = {
    "beside_cann.py": "tests/cann_ep",
    "convert.py": "tests",
    "own_form.py": "tests",
    "train_artifacts.py": "tests/training",
    "train_pytorch.py": "tests/torch_step",
    "train_standard_step.py": "tests",
}
"""The folder of the test of each example, in which it is named."""


def test_every_example_is_tested_and_in_the_readme() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(TESTS)
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for name, folder in TESTS.items():
        test = FOLDER.parent / folder / "test_examples.py"
        assert f'run_example("{name}"' in test.read_text(encoding="utf-8")
        assert f"`{name}`" in readme


@pytest.mark.parametrize("name", TESTS)
def test_every_example_says_how_it_runs_and_is_short(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert f"\n    python examples/{name}" in said
    assert "pip install" in said
    assert text.count("\n") <= 110


def test_convert(tmp_path: Path) -> None:
    lines = run_example("convert.py", tmp_path)
    assert lines[-1] == "wrote lowered.onnx for atlas-a2: 2 gradients lowered and proven"
    written = onnx.load(tmp_path / "lowered.onnx")
    assert sum(node.domain == "npu" for node in written.graph.node) == 4


def test_own_form(tmp_path: Path) -> None:
    assert run_example("own_form.py", tmp_path) == ["gradient: lowered by acme_max_pool_grad: MaxPool3DGradWithArgmax"]


def test_train_standard_step(tmp_path: Path) -> None:
    lines = run_example("train_standard_step.py", tmp_path)
    assert lines[0].startswith("2 gradients lowered, 11 nodes of 5 operators of training runtimes replaced")
    losses = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("step ")]
    assert len(losses) == 5
    assert losses[-1] < 0.01  # it begins at the logarithm of 5 classes
    assert lines[-1] == "wrote step/trained"
    assert poolgrad_lowering.read_checkpoint(tmp_path / "step" / "trained")["state.steps"] == 100
