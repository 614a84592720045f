# SPDX-License-Identifier: Apache-2.0

"""What `create_session` sets beside the CANN provider: numbers are right without an option."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from poolgrad_lowering import export_cann
from poolgrad_lowering.runtime import TrainingLoop, create_session
from tests.harness.cann.graph_engine import ENGINE, PRECISION_MODE
from tests.harness.sessions.mixed_sessions import (
    CANN,
    TO_DEVICE,
    TO_HOST,
    assert_results,
    count_copies,
    image,
    on_cpu,
    on_device,
    quiet_options,
)
from tests.runtime.device_models import GRADIENT, POOL, model_of

pytestmark = pytest.mark.cann_ep

STEP = f"""
step (float[2, 3, 8, 6] weight_x, int64 state_steps, float learning_rate, float[2, 3, 8, 6] input)
  => (float loss, float[2, 3, 8, 6] new_weight_x, int64 new_state_steps) <int64 one = {{1}}, float third = {{0.3}}> {{
  r = Mul (weight_x, input)
  y, argmax = {POOL} (r)
  loss = ReduceSum <keepdims = 0> (y)
  scaled = Mul (loss, third)
  grad = Mul (y, scaled)
  dx = {GRADIENT} (r, grad, argmax)
  step = Mul (dx, learning_rate)
  new_weight_x = Sub (weight_x, step)
  new_state_steps = Add (state_steps, one)
}}"""
"""A training step with values of rank 0 at its inputs and outputs, and one that crosses from part to part."""

FEEDS = {
    "weight_x": image(2, 3, 8, 6) / 3,
    "state_steps": np.array(4, np.int64),
    "learning_rate": np.array(0.01, np.float32),
    "input": image(2, 3, 8, 6, seed=1) / 7,
}


def session_of(model: onnx.ModelProto, **options: Any) -> Any:
    return create_session(
        model, backend="cann", providers=[(CANN, options)] if options else [CANN], session_options=quiet_options()
    )


def check_float32() -> str:
    model = model_of(STEP)
    session = session_of(model)
    assert [list(value.shape) for value in session.get_inputs()] == [[2, 3, 8, 6], [], [], [2, 3, 8, 6]]
    assert [list(value.shape) for value in session.get_outputs()] == [[], [2, 3, 8, 6], []]
    for _ in range(2):
        assert_results(session, FEEDS, on_cpu(model, FEEDS))
    assert [name for each in ENGINE.sub_models for name in each.rank_0_inputs] == []
    return str(ENGINE.initialized[0][PRECISION_MODE])


def check_float16_on_request() -> str:
    session = session_of(model_of(STEP), precision_mode="force_fp16")
    session.run(None, FEEDS)
    return str(ENGINE.initialized[0][PRECISION_MODE])


def with_third(number: float) -> onnx.ModelProto:
    """The step with another constant, as a model that was trained on has."""
    model = model_of(STEP)
    [tensor] = [tensor for tensor in model.graph.initializer if tensor.name == "third"]
    tensor.CopyFrom(numpy_helper.from_array(np.float32(number), "third"))
    return model


def check_changed_model(stores: bool) -> bool:
    """Whether a second session, of a model with another constant, computes what that model says."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        options = {"dump_om_model": "1"} if stores else {}
        session_of(with_third(0.3), **options).run(None, FEEDS)
        changed = with_third(0.9)
        found = session_of(changed, **options).run(None, FEEDS)
        assert bool(list(Path(folder).iterdir())) == stores
        os.chdir("/")
    return all(np.array_equal(one, other) for one, other in zip(found, on_cpu(changed, FEEDS), strict=True))


def check_training() -> None:
    """A step copies the batch and the rate to the device and the loss to the host."""
    model = model_of(STEP)
    values = {name: FEEDS[name] for name in ("weight_x", "state_steps")}
    loop = TrainingLoop(session_of(model), values)
    expected: dict[str, Any] = dict(FEEDS)
    for _ in range(3):
        losses: list[Any] = []

        def step(losses: list[Any] = losses) -> None:
            losses.append(loop.step(input=FEEDS["input"], learning_rate=0.01)["loss"])

        assert count_copies(step) == {TO_DEVICE: 2, TO_HOST: 1}
        loss, expected["weight_x"], expected["state_steps"] = on_cpu(model, expected)
        assert losses[0].tobytes() == loss.tobytes()
    kept = loop.values()
    assert kept["weight_x"].tobytes() == expected["weight_x"].tobytes()
    assert (kept["state_steps"], kept["state_steps"].shape) == (7, ())


def check_indices_of_its_own_pools() -> None:
    """On Ascend 950, too, indices of a pool of the session are not read back."""
    from models import catalogue

    entry = catalogue.entry("torch/lenet")
    session = session_of(export_cann(onnx.load(entry.file), target="ascend950").model)
    session.run(None, entry.feeds())
    assert count_copies(lambda: session.run(None, entry.feeds()))[TO_HOST] == len(session.get_outputs())


def test_float32_is_computed_in_float32() -> None:
    assert on_device(check_float32) == "must_keep_origin_dtype"


def test_a_precision_mode_that_is_given_stays() -> None:
    assert on_device(check_float16_on_request) == "force_fp16"


def test_a_changed_model_never_runs_as_the_old_one() -> None:
    assert on_device(check_changed_model, False)


def test_the_cann_providers_default_runs_a_changed_model_as_the_old_one() -> None:
    assert not on_device(check_changed_model, True)


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B1"])
def test_a_step_copies_the_batch_the_rate_and_the_loss(soc: str) -> None:
    on_device(check_training, ACLNN_HOST_SOC=soc)


def test_indices_of_its_own_pools_are_not_read_back() -> None:
    on_device(check_indices_of_its_own_pools, ACLNN_HOST_SOC="Ascend950PR_9599")
