# SPDX-License-Identifier: Apache-2.0

"""Steps of the benchmarks' networks: correct, all of it in graph mode, and without obstacles."""

from __future__ import annotations

import pytest

from benchmarks.eager_networks import NETWORKS
from poolgrad_lowering import export_cann, lower, verify
from tests.torch_step.graph_mode import faults

SHORT = {"MoCo", "R(2+1)D", "VAE", "graph network", "recommender"}
"""Those that run in every suite."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in NETWORKS]
)
def test_networks(name: str) -> None:
    step = NETWORKS[name].export(optimizer=NETWORKS[name].optimizer)
    step.check(steps=2)
    lowered = lower(step.model, keep_onnx=True).model
    assert verify(step.model, lowered).proven
    exported = export_cann(lowered)
    assert not exported.report.obstacles
    assert not faults(exported.model)
