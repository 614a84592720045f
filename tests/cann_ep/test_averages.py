# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools beside the CANN provider: as our nodes, or left to CANN's graph engine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from poolgrad_lowering import export_cann, lower
from poolgrad_lowering.runtime import assignment, get_ep_name
from tests.harness.sessions.mixed_sessions import (
    CANN,
    GOOD_MODES,
    ORDERS,
    TO_DEVICE,
    TO_HOST,
    as_graph_mode_needs_it,
    assert_results,
    count_copies,
    on_cpu,
    on_device,
    open_mixed,
)

pytestmark = pytest.mark.cann_ep

WRITTEN_OUT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,4,5] dy) => (float[2,3,8,10] z) <float four = {4}, int64[4] planes_shape = {-1,1,4,5},
    float[1,1,2,2] ones = {1,1,1,1}, int64[4] x_shape = {2,3,8,10}> {
    d = Relu (dy)
    mean = Div (d, four)
    planes = Reshape (mean, planes_shape)
    sums = ConvTranspose <strides = [2,2], kernel_shape = [2,2]> (planes, ones)
    dx = Reshape (sums, x_shape)
    z = Neg (dx)
}"""
"""A pool of 2×2 elements, its gradient in operators of ONNX."""

FEEDS = {"dy": np.random.default_rng(0).integers(-8, 9, (2, 3, 4, 5)).astype(np.float32)}
"""Sums of quotients by 4 are exact."""


def check(order: str, mode: str, ours: str) -> None:
    """`ours` is the number of nodes of our provider."""
    original = onnx.parser.parse_model(WRITTEN_OUT)
    lowered = lower(original, target="ascend950").model
    kept = export_cann(original, target="ascend950").model
    model = as_graph_mode_needs_it(lowered, mode) if int(ours) else kept
    session = open_mixed(model, order, mode)
    nodes = assignment(session)
    assert sum(node.provider == get_ep_name() for node in nodes) == int(ours)
    assert any(node.provider == CANN for node in nodes)
    expected = on_cpu(original, FEEDS)
    assert_results(session, FEEDS, expected)
    if mode == "subgraphs":
        assert {node.provider for node in nodes} <= {get_ep_name(), CANN}
        copies = count_copies(lambda: session.run(None, FEEDS))
        assert copies == {TO_DEVICE: 1, TO_HOST: 1}


@pytest.mark.parametrize("mode", GOOD_MODES)
@pytest.mark.parametrize("order", ORDERS)
def test_a_lowered_gradient_runs_between_two_parts(order: str, mode: str) -> None:
    on_device(check, order, mode, "1")


@pytest.mark.parametrize("order", ORDERS)
def test_a_gradient_that_is_left_is_inside_of_a_part(order: str) -> None:
    on_device(check, order, "subgraphs", "0")
