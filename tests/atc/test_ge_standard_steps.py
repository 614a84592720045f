# SPDX-License-Identifier: Apache-2.0

"""Artifacts as steps in standard ONNX, exported for ATC: no obstacle, and GE computes the step's bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from models.artifact_runs import FOLDERS, RUNS
from poolgrad_lowering import export_atc, verify
from tests.harness.ge.checking import parse_and_run
from tests.harness.ge.driver import AnyPlugin
from tests.harness.ge.prototypes import Soc
from tests.harness.sessions.standard_steps import standard_step

TARGETS: dict[str, Soc] = {"atlas-a2": "ascend910b", "ascend950": "ascend950"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RUNS)
def test_a_step_converts(name: str, target: str, shipped: AnyPlugin, tmp_path: Path) -> None:
    step, feeds = standard_step(name, target, tmp_path / "step")
    fixed = of_fixed_sizes(step, feeds)
    export = export_atc(fixed, target=target)
    assert [found.code for found in export.report.obstacles] == []
    assert verify(fixed, export.model).proven
    parse_and_run(fixed, export.model, feeds, shipped, TARGETS[target], release=export.report.conversion.cann)


def of_fixed_sizes(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The step for the batches that it is trained with."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dim.dim_value = feeds[value.name].shape[axis]
    return model


@pytest.mark.parametrize("name", RUNS)
def test_without_definitions_it_does_not(name: str) -> None:
    export = export_atc(onnx.load(FOLDERS / name / "training_model.onnx"))
    assert "unregistered-operator" in {found.code for found in export.report.obstacles}
