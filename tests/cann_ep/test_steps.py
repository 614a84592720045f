# SPDX-License-Identifier: Apache-2.0

"""Training steps beside the CANN provider, out of PyTorch and of artifacts: all of a step is on the NPU.

Nothing is copied in a step. `make test-cann-ep` writes a few steps of PyTorch to build/steps; all there are measured.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from models.artifact_runs import FOLDERS, RUNS
from poolgrad_lowering import lower, lower_artifacts
from tests.cann_ep.placements import assert_predicted, predicted
from tests.cann_ep.write_coverage import rounds_in_another_order, row
from tests.harness.sessions.coverage import SOCS, Coverage, measure
from tests.harness.sessions.mixed_sessions import ROOT
from tests.harness.sessions.standard_steps import OPTIMIZERS, standard_step

STEPS = sorted((ROOT / "build" / "steps").glob("*.onnx"))

pytestmark = pytest.mark.cann_ep


def measured(file: Path, target: str) -> tuple[onnx.ModelProto, Coverage]:
    model = lower(onnx.load(file), target=target, keep_onnx=True).model
    feeds = {name[3:]: array for name, array in np.load(file.with_suffix(".npz")).items()}
    return model, measure(model, feeds, soc=SOCS[target])


@pytest.mark.parametrize("target", SOCS)
@pytest.mark.parametrize("file", [file for file in STEPS if "bfloat16" not in file.stem], ids=lambda file: file.stem)
def test_a_step_is_on_the_npu(file: Path, target: str) -> None:
    model, session = measured(file, target)
    assert_predicted(model, session)
    found = row(file.stem, model, session)
    problems = ("refused", "scalars", "on_cpu", "copies", "violations", "error")
    assert {name: found[name] for name in problems if found[name]} == {}
    draws_or_rounds = "draws" in found["why"] or "float16" in file.stem
    draws_or_rounds |= rounds_in_another_order(found["why"], target)
    assert found["same_bits"] or draws_or_rounds, found["why"]


def test_there_are_steps() -> None:
    assert len(STEPS) >= 3


@pytest.mark.parametrize("target", SOCS)
@pytest.mark.parametrize("name", RUNS)
def test_a_step_of_artifacts_is_on_the_npu(name: str, target: str, tmp_path: Path) -> None:
    model, feeds = standard_step(name, target, tmp_path / "step")
    session = measure(model, feeds, soc=SOCS[target])
    assert_predicted(model, session)
    found = row(f"{name}__{OPTIMIZERS[name]}__float32", model, session)
    problems = ("refused", "scalars", "on_cpu", "copies", "violations", "error")
    assert {problem: found[problem] for problem in problems if found[problem]} == {}
    assert found["same_bits"] or rounds_in_another_order(found["why"], target), found["why"]


@pytest.mark.parametrize("name", ["transformer", "unet"])
def test_a_step_with_sgd_has_the_parts_that_are_predicted(name: str, tmp_path: Path) -> None:
    """These have a shape that their batch decides; what computed it would move a cut behind the first nodes."""
    artifacts = tmp_path / "artifacts"
    shutil.copytree(FOLDERS / name, artifacts)
    shutil.copy(FOLDERS / "resnet" / "optimizer_model.onnx", artifacts)  # one node for the weights of any model
    model, feeds = standard_step(name, "ascend950", tmp_path / "step", artifacts)
    assert_predicted(model, measure(model, {value.name: feeds[value.name] for value in model.graph.input}))
    assert predicted(model).report.sub_models == 3


def test_without_definitions_no_part_of_the_gradients_runs(tmp_path: Path) -> None:
    """What a lowering alone leaves: operators that onnxruntime-cann does not know."""
    lower_artifacts(FOLDERS / "lenet", tmp_path / "lowered")
    import onnxruntime

    with pytest.raises(Exception, match=r"(ConvGrad|SoftmaxCrossEntropyLossGrad).*is not a registered function"):
        onnxruntime.InferenceSession(str(tmp_path / "lowered" / "training_model.onnx"))
