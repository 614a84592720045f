# SPDX-License-Identifier: Apache-2.0

"""Steps in standard ONNX train in every release of onnxruntime, from `values.npz`, without onnx and the provider."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from models.artifact_runs import FOLDERS, RUNS, batches
from poolgrad_lowering import lower_artifacts
from tests.harness.releases import train_step
from tests.releases.test_releases import RELEASES

pytestmark = pytest.mark.releases
ROOT = Path(__file__).parents[2]
STEPS = 20
DIFFERENCE = 2e-5
"""Of losses: kernels of releases add up in other orders."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installation has it."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "poolgrad_lowering", folder / "poolgrad_lowering")
    for name in ("patterns", "runtime"):
        shutil.copytree(ROOT / name, folder / "poolgrad_lowering" / name)
    return folder


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_step_trains(release: str, name: str, package: Path, tmp_path: Path) -> None:
    lower_artifacts(FOLDERS / name, tmp_path / "step", standard=True)
    fed = list(batches(name, STEPS))
    images, labels = (np.array(arrays) for arrays in zip(*fed, strict=True))
    np.savez(tmp_path / "batches.npz", images=images, labels=labels)
    arguments = [package, tmp_path / "step", tmp_path / "batches.npz", str(RUNS[name].rate)]
    command = [RELEASES[release], "-P", train_step.__file__, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    expected = np.load(FOLDERS / name / "run.npz")["losses"][:STEPS]
    assert np.abs(expected - json.loads(ran.stdout)).max() < DIFFERENCE
