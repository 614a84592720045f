# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools that a graph of CANN cannot have."""

from __future__ import annotations

import pytest
from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.obstacles import Obstacle
from tests.average_models import CASES, average_model
from tests.poolgrad_lowering.ge.atc.average_exports import exported, with_computed_sizes


def codes(model: ModelProto, target: str) -> list[str]:
    return [obstacle.code for obstacle in exported(model, target)[2]]


@pytest.mark.obstacle("computed-sizes")
@pytest.mark.parametrize(("name", "target"), [("2d in 3d", "atlas-a2"), ("2d", "ascend950")])
def test_sizes_that_nothing_tells(name: str, target: str) -> None:
    model = with_computed_sizes(average_model(CASES[name], 16), declared=False)
    assert codes(model, target) == [Obstacle.COMPUTED_SIZES.value]


@pytest.mark.obstacle("channels-last")
def test_adaptive_windows_on_other_products() -> None:
    assert codes(average_model(CASES["adaptive 2d"], 16), "atlas-a2") == [Obstacle.CHANNELS_LAST.value]


def test_operators_that_a_target_lacks() -> None:
    assert codes(average_model(CASES["2d"], 16), "atlas-a2") == [Obstacle.WRONG_TARGET.value]
    assert codes(average_model(CASES["adaptive, shape"], 16), "atlas-a2") == [Obstacle.WRONG_TARGET.value]
