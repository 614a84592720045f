# SPDX-License-Identifier: Apache-2.0

"""A model of six nodes that alternate between the providers."""

from __future__ import annotations

import pytest

from poolgrad_lowering.runtime import get_ep_name
from tests.harness.sessions.mixed_sessions import (
    ALTERNATING,
    CANN,
    GOOD_MODES,
    ORDERS,
    TO_DEVICE,
    TO_HOST,
    assert_results,
    count_copies,
    image,
    on_cpu,
    on_device,
    open_mixed,
    providers_of,
)
from tests.runtime.device_models import model_of

pytestmark = [
    pytest.mark.cann_ep,
    pytest.mark.parametrize("mode", GOOD_MODES),
    pytest.mark.parametrize("order", ORDERS),
]


def check_results_of_several_runs(order: str, mode: str) -> None:
    model = model_of(ALTERNATING)
    session = open_mixed(model, order, mode)
    for seed in range(5):
        feeds = {"x": image(2, 3, 8, 6, seed=seed), "b": image(2, 3, 8, 6, seed=seed + 100)}
        assert_results(session, feeds, on_cpu(model, feeds))


def check_nodes_and_copies(order: str, mode: str) -> None:
    session = open_mixed(model_of(ALTERNATING), order, mode)
    nodes = providers_of(session)
    assert nodes == {
        get_ep_name(): {"MaxPool3DWithArgmaxV2_1", "MaxPool3DGradWithArgmax_3"},
        CANN: {"Relu_0", "Relu_2", "Add_4", "Relu_5"},
    }
    feeds = {"x": image(1, 2, 4, 4), "b": image(1, 2, 4, 4)}
    for _ in range(2):
        assert count_copies(lambda: session.run(None, feeds)) == {TO_DEVICE: 2, TO_HOST: 2}


def test_results_of_several_runs(order: str, mode: str) -> None:
    on_device(check_results_of_several_runs, order, mode)


def test_only_feeds_and_fetches_are_copied(order: str, mode: str) -> None:
    on_device(check_nodes_and_copies, order, mode)
