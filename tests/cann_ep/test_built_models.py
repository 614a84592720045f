# SPDX-License-Identifier: Apache-2.0

"""Training graphs of networks: convolutions, matrix products and the rest on the CANN provider, pools on ours."""

from __future__ import annotations

import onnx
import onnxruntime as ort
import pytest

from models import catalogue
from poolgrad_lowering import lower
from poolgrad_lowering.runtime import SessionError, assignment, create_session, get_ep_name
from tests.harness.sessions.mixed_sessions import (
    CANN,
    GOOD_MODES,
    MODES,
    ON_DEVICE,
    ORDERS,
    TO_DEVICE,
    TO_HOST,
    HostLibrary,
    as_graph_mode_needs_it,
    assert_results,
    count_copies,
    is_fetched_by_cann,
    on_cpu,
    on_device,
    open_mixed,
    quiet_options,
    without_reshaped_outputs,
)

MODELS = ("torch/lenet", "torch/resnet_stem", "torch/unet_level", "torch/video")

pytestmark = pytest.mark.cann_ep


def check_model(name: str, order: str, mode: str, pools: str) -> None:
    entry = catalogue.entry(name)
    lowered = lower(onnx.load(entry.file), target="ascend950", forward=pools == "pools_move").model
    model = as_graph_mode_needs_it(lowered, mode)
    if is_fetched_by_cann(order, mode):
        without_reshaped_outputs(model)
    # Deterministic, because windows overlap in some of the models: otherwise their sums have no promised order.
    session = open_mixed(model, order, mode, ours={"deterministic": "1"})
    nodes = assignment(session)
    assert {node.provider for node in nodes if node.domain == "npu"} == {get_ep_name()}
    assert any(node.provider == CANN for node in nodes)
    feeds = entry.feeds()
    expected = on_cpu(model, feeds)
    for _ in range(3):
        assert_results(session, feeds, expected)


def check_copies(name: str) -> None:
    """If the CANN provider runs all other nodes, only inputs and outputs are copied."""
    entry = catalogue.entry(name)
    model = as_graph_mode_needs_it(lower(onnx.load(entry.file), target="ascend950").model, "subgraphs")
    feeds = entry.feeds()
    for order in ORDERS:
        session = open_mixed(model, order, "subgraphs")
        assert {node.provider for node in assignment(session)} == {get_ep_name(), CANN}
        session.run(None, feeds)
        copies = count_copies(lambda session=session: session.run(None, feeds))
        assert copies == {TO_DEVICE: len(feeds), TO_HOST: len(model.graph.output)}


def check_reshaped_output_of_cann_alone() -> list[str]:
    """The rules that the CANN provider violates without ours, on the model before lowering."""
    entry = catalogue.entry("torch/lenet")
    options = quiet_options()
    options.add_provider(CANN, MODES["operators"])
    session = ort.InferenceSession(str(entry.file), options, enable_fallback=0)
    copies = count_copies(lambda: session.run(None, entry.feeds()))
    assert copies[ON_DEVICE] == 2
    rules = [violation["violation"] for violation in HostLibrary().violations()]
    HostLibrary().reset()
    return rules


@pytest.mark.parametrize(
    ("mode", "pools"), [*((mode, "pools_move") for mode in GOOD_MODES), ("operators", "pools_stay")]
)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_results(name: str, order: str, mode: str, pools: str) -> None:
    on_device(check_model, name, order, mode, pools)


def check_pools_that_stay(name: str) -> None:
    """Their Indices come from tables on the device, and are not read back."""
    model = lower(onnx.load(catalogue.entry(name).file), target="ascend950", forward=False).model
    feeds = catalogue.entry(name).feeds()
    session = create_session(
        model, backend="cann", providers=[CANN], session_options=quiet_options(), deterministic=True
    )
    assert {node.provider for node in assignment(session)} == {get_ep_name(), CANN}
    assert_results(session, feeds, on_cpu(model, feeds))
    copies = count_copies(lambda: session.run(None, feeds))
    assert copies == {TO_DEVICE: len(feeds), TO_HOST: len(model.graph.output)}


@pytest.mark.parametrize("name", MODELS)
def test_pools_that_stay_run_in_parts_of_the_graph(name: str) -> None:
    on_device(check_pools_that_stay, name)


def check_obstacles(name: str) -> list[str]:
    model = lower(onnx.load(catalogue.entry(name).file), target="ascend950").model
    with pytest.raises(SessionError, match=r"opset: the model imports ONNX's operators in version 21") as refused:
        create_session(model, backend="cann", providers=[CANN])
    with pytest.warns(RuntimeWarning, match="opset"):
        session = create_session(model, backend="cann", providers=[CANN], force=True)
    with pytest.raises(Exception, match="aclgrphParseONNXFromMem"):
        session.run(None, catalogue.entry(name).feeds())
    return str(refused.value).splitlines()


def test_obstacles_are_refused_before_the_first_run() -> None:
    assert "enable_cann_graph=0" in on_device(check_obstacles, "torch/lenet_opset21")[0]


@pytest.mark.parametrize("name", MODELS)
def test_only_feeds_and_fetches_are_copied(name: str) -> None:
    on_device(check_copies, name)


def test_cann_alone_does_not_wait_for_what_it_reshapes() -> None:
    assert on_device(check_reshaped_output_of_cann_alone) == ["race", "race"]
