# SPDX-License-Identifier: Apache-2.0

"""The CANN provider's default, graph mode without subgraphs: it runs the whole graph or nothing."""

from __future__ import annotations

import pytest

from poolgrad_lowering.runtime import get_ep_name
from tests.harness.sessions.mixed_sessions import (
    ALTERNATING,
    CANN,
    assert_results,
    image,
    on_cpu,
    on_device,
    open_mixed,
    providers_of,
)
from tests.runtime.device_models import model_of

pytestmark = pytest.mark.cann_ep

FEEDS = {"x": image(1, 2, 4, 4), "b": image(1, 2, 4, 4)}


def check_ours_first() -> None:
    model = model_of(ALTERNATING)
    session = open_mixed(model, "ours_first", "whole_graph")
    nodes = providers_of(session)
    assert nodes == {
        get_ep_name(): {"MaxPool3DWithArgmaxV2_1", "MaxPool3DGradWithArgmax_3"},
        "CPUExecutionProvider": {"Relu_0", "Relu_2", "Add_4", "Relu_5"},
    }
    assert_results(session, FEEDS, on_cpu(model, FEEDS))


def check_cann_first() -> None:
    session = open_mixed(model_of(ALTERNATING), "cann_first", "whole_graph")
    assert set(providers_of(session)) == {CANN}
    with pytest.raises(Exception, match=r"aclgrphParseONNXFromMem"):
        session.run(None, FEEDS)


def test_ours_first_leaves_nothing_to_the_cann_provider() -> None:
    on_device(check_ours_first)


def test_cann_first_takes_our_nodes_and_fails_when_it_runs() -> None:
    on_device(check_cann_first)
