# SPDX-License-Identifier: Apache-2.0

"""Two processes that average their gradients train as one process does with the joined batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from poolgrad_lowering import lower
from poolgrad_lowering.torch import export_training_step, export_update
from tests.harness.processes import environment

CHILD = Path(__file__).parents[1] / "harness" / "sessions" / "data_parallel.py"
STEPS, BATCH = 12, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of a training, its values, and its batches."""
    made = tmp_path_factory.mktemp("training")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    examples = torch.randn(BATCH, 1, 8, 8), torch.arange(BATCH) % 3
    step = export_training_step(model, nn.functional.cross_entropy, examples, dynamic_batch=True)
    update = export_update(step, "adamw")
    onnx.save(lower(step.model).model, made / "gradients.onnx")
    onnx.save(update.model, made / "update.onnx")
    np.savez(made / "values.npz", **update.values)
    random = np.random.default_rng(0)
    images = random.standard_normal((STEPS, BATCH, 1, 8, 8), np.float32)
    np.savez(made / "batches.npz", images=images, digits=random.integers(0, 3, (STEPS, BATCH)))
    return made


def trained(folder: Path, processes: int) -> list[dict[str, np.ndarray]]:
    store = folder / f"store_{processes}"
    commands = [
        [sys.executable, str(CHILD), str(rank), str(processes), str(store), str(folder)] for rank in range(processes)
    ]
    children = [subprocess.Popen(command, env=environment()) for command in commands]
    assert [child.wait(timeout=200) for child in children] == [0] * processes
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(processes)]


def test_two_processes(folder: Path) -> None:
    [alone] = trained(folder, 1)
    first, second = trained(folder, 2)
    assert all(np.array_equal(value, second[name]) for name, value in first.items())
    # A sum over the batch becomes a sum of two sums: some roundings, amplified over the steps.
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-4)
    assert len(set(alone["losses"].tolist())) == STEPS
