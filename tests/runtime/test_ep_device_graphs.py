# SPDX-License-Identifier: Apache-2.0

"""Graphs whose values pass between the CPU and the provider's device memory have the bits of the CPU alone."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.harness.sessions.device_process import on_device
from tests.oracles import assert_same_bits
from tests.pool_models import CASES as POOLS
from tests.pool_models import pool_model, values_with_ties
from tests.runtime.device_models import ALONE, BRANCH, CHAIN, LOOP, alone_feeds, assert_right, image, open_session
from tests.runtime.ep_models import VALUE_TYPES, make_feeds, make_model
from tests.runtime.test_ep_gradients import CASES as GRADIENTS


def check_every_operator() -> None:
    for (name, case), values in zip(GRADIENTS.items(), itertools.cycle(VALUE_TYPES)):
        feeds, wanted = make_feeds(case, values)
        model = make_model(case.op, case.attributes(), x=case.x_shape, grad=feeds["grad"].shape, values=values)
        session = create_session(model, backend="host", deterministic="1")
        assert any(node.provider == get_ep_name() for node in assignment(session)), name
        for _ in range(2):
            assert_same_bits(session.run(None, feeds)[0], wanted)
    for pool in POOLS.values():
        session = create_session(pool_model(pool.op, pool.attributes(), 20, pool.x_shape), backend="host")
        if not any(node.provider == get_ep_name() for node in assignment(session)):
            continue  # Atlas A2 has no pools with dilation
        x = values_with_ties(pool.x_shape)
        for found, array in zip(session.run(None, {"x": x}), pool.expected(x), strict=True):
            assert_same_bits(found, array.astype(found.dtype))


def check_nodes_of_both() -> None:
    session = open_session(CHAIN)
    for seed, shape in enumerate([(1, 2, 4, 6), (2, 3, 8, 8), (1, 1, 2, 2), (2, 3, 8, 8), (0, 3, 4, 4)]):
        assert_right(session, CHAIN, {"x": image(*shape, seed=seed)})


def check_subgraphs() -> None:
    branch = open_session(BRANCH)
    for first in (True, False, True):
        assert_right(branch, BRANCH, {"x": image(2, 3, 8, 6), "first": np.array(first)})
    loop = open_session(LOOP)
    for count in (0, 1, 3):
        assert_right(loop, LOOP, {"x": image(1, 2, 4, 4), "count": np.array(count)})


def check_empty_gradient() -> None:
    session = open_session(ALONE)
    feeds = alone_feeds(2, 3, 1, 4)
    assert feeds["grad"].size == 0
    for _ in range(2):
        (dx,) = session.run(None, feeds)
        assert_same_bits(dx, np.zeros_like(feeds["x"]))


def check_copies_of_many_chunks() -> None:
    """Tensors of several chunks of pinned memory and a rest."""
    session = open_session(ALONE)
    for shape in [(1, 3, 1024, 514), (1, 1, 1024, 512), (2, 1, 1026, 1024)]:
        assert_right(session, ALONE, alone_feeds(*shape))


def check_every_way_to_run() -> None:
    for mode in (ort.ExecutionMode.ORT_SEQUENTIAL, ort.ExecutionMode.ORT_PARALLEL):
        for pattern in (True, False):
            options = ort.SessionOptions()
            options.execution_mode = mode
            options.enable_mem_pattern = pattern
            session = open_session(CHAIN, options)
            for seed in range(2):
                assert_right(session, CHAIN, {"x": image(2, 2, 6, 8, seed=seed)})
    options = ort.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
    session = open_session(BRANCH, options)
    for seed in range(2):
        assert_right(session, BRANCH, {"x": image(2, 2, 6, 8, seed=seed), "first": np.array(True)})


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend950PR_9599"])
def test_every_operator_on_every_product(soc: str) -> None:
    on_device(check_every_operator, ACLNN_HOST_SOC=soc)


@pytest.mark.parametrize(
    "check",
    [check_nodes_of_both, check_subgraphs, check_empty_gradient, check_copies_of_many_chunks, check_every_way_to_run],
)
def test_in_device_memory(check: object) -> None:
    on_device(check)
