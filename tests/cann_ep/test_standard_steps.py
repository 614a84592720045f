# SPDX-License-Identifier: Apache-2.0

"""Artifacts of onnxruntime-training beside the CANN provider: all of a step is on the NPU; nothing is copied in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from models.artifact_runs import FOLDERS, RUNS
from poolgrad_lowering import lower_artifacts
from tests.cann_ep.placements import assert_predicted, predicted
from tests.cann_ep.write_coverage import rounds_in_another_order, row
from tests.harness.sessions.coverage import SOCS, measure
from tests.harness.sessions.standard_steps import OPTIMIZERS, standard_step

pytestmark = pytest.mark.cann_ep


@pytest.mark.parametrize("target", SOCS)
@pytest.mark.parametrize("name", RUNS)
def test_a_step_is_on_the_npu(name: str, target: str, tmp_path: Path) -> None:
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
    assert predicted(model).sub_models == 3


def test_without_definitions_no_part_of_the_gradients_runs(tmp_path: Path) -> None:
    """What a lowering alone leaves: operators that onnxruntime-cann does not know."""
    lower_artifacts(FOLDERS / "lenet", tmp_path / "lowered")
    import onnxruntime

    with pytest.raises(Exception, match=r"(ConvGrad|SoftmaxCrossEntropyLossGrad).*is not a registered function"):
        onnxruntime.InferenceSession(str(tmp_path / "lowered" / "training_model.onnx"))
