# SPDX-License-Identifier: Apache-2.0

"""Steps of networks in every precision: correct, valid, all of it in graph mode, and with every pool lowered.

The whole product takes half an hour: `python3 tools/environments.py torch-step pytest -m long tests/torch_step`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import onnx
import pytest

from poolgrad_lowering import export_atc, export_cann, lower, verify
from poolgrad_lowering.torch import TrainingStep
from tests.torch_step.graph_mode import faults
from tests.torch_step.networks import NETWORKS, Network
from tests.torch_step.steps import OPTIMIZERS, PRECISIONS

SHORT = {
    ("lenet", "adamw", "float32"),
    ("lenet", "sgd", "bfloat16"),
    ("attention", "sgd", "float16"),
    ("attention", "adamw", "bfloat16"),
    ("dropped", "adamw", "float16"),
}
"""Those of the product that run in every suite."""

AMPLIFIED = {("resnet_18", "bfloat16"): 0.2}
"""Tolerances where twenty layers of BatchNorm amplify the rounding of 16 bits, to 0.055 as measured; others pass with
the usual one. A wrong gradient is off by about its own size."""


def assert_good(step: TrainingStep, network: Network) -> None:
    """The step is valid, graph mode takes all of it, and the gradients of all pools are lowered for both products.

    Those of average pools may also be left, and what unpools over sizes that are not known is.
    """
    onnx.checker.check_model(step.model, full_check=True)
    assert not faults(export_cann(step.model).model)
    for target in ("ascend950", "atlas-a2"):
        report = lower(step.model, target=target).report
        assert len(report.lowered) == network.pools + network.averages, [anchor.code for anchor in report.anchors]
        kept = lower(step.model, target=target, keep_onnx=True).report
        assert [anchor.code for anchor in kept.refused] == (
            ["in-onnx"] * network.averages + ["plane-base"] * network.unpooled
        )


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    network = NETWORKS[name]
    step = network.export()
    step.check(steps=2)  # the second one with new running statistics
    assert_good(step, network)
    lowered = lower(step.model)
    verified = verify(step.model, lowered.model)
    assert [site.status for site in verified.sites] == ["proven"] * (network.pools + network.averages)
    assert not export_atc(step.model).report.obstacles


@pytest.mark.parametrize(
    ("name", "optimizer", "precision"),
    [
        pytest.param(*case, marks=() if case in SHORT else pytest.mark.long)
        for case in product(NETWORKS, OPTIMIZERS, PRECISIONS)
    ],
)
def test_networks_with_an_optimizer(name: str, optimizer: Any, precision: str) -> None:
    network = NETWORKS[name]
    with PRECISIONS[precision]():
        step = network.export(optimizer=optimizer)
    assert_good(step, network)
    step.check(tolerance=AMPLIFIED.get((name, precision)))
