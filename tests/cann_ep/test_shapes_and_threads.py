# SPDX-License-Identifier: Apache-2.0

"""Sessions of both providers with several shapes, several threads, and tensors on the device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from models import catalogue
from poolgrad_lowering import lower
from tests.harness.sessions.mixed_sessions import (
    ALTERNATING,
    GOOD_MODES,
    ORDERS,
    Array,
    as_graph_mode_needs_it,
    assert_results,
    assert_same_bits,
    count_copies,
    image,
    is_fetched_by_cann,
    on_cpu,
    on_device,
    open_mixed,
    without_reshaped_outputs,
)
from tests.runtime.device_models import model_of

THREADS = 4
RUNS = 12
HUAWEI = 0x19E5

pytestmark = [
    pytest.mark.cann_ep,
    pytest.mark.parametrize("mode", GOOD_MODES),
    pytest.mark.parametrize("order", ORDERS),
]


def feeds_of(batch: int, seed: int = 0) -> dict[str, Array]:
    return {"x": image(batch, 2, 8, 6, seed=seed), "b": image(batch, 2, 8, 6, seed=seed + 100)}


def check_shapes_of_one_session(order: str, mode: str) -> None:
    """The CANN provider builds its sub-models for each shape, in the first Run with that shape."""
    model = model_of(ALTERNATING)
    session = open_mixed(model, order, mode)
    for batch in (2, 1, 3, 2, 1, 3):
        assert_results(session, feeds_of(batch), on_cpu(model, feeds_of(batch)))


def check_dynamic_batch(order: str, mode: str) -> None:
    entry = catalogue.entry("torch/lenet_dynamic_batch")
    model = as_graph_mode_needs_it(lower(onnx.load(entry.file), target="ascend950").model, mode)
    if is_fetched_by_cann(order, mode):
        without_reshaped_outputs(model)
    session = open_mixed(model, order, mode)
    feeds = entry.feeds()
    for size in (3, 2, 3):  # for one row, the CPU's products with constants and with inputs have different bits
        given = {name: array[:size] for name, array in feeds.items()}
        assert_results(session, given, on_cpu(model, given))


def check_overlapping_runs(order: str, mode: str) -> None:
    model = model_of(ALTERNATING)
    session = open_mixed(model, order, mode)

    def run(number: int) -> None:
        feeds = feeds_of(1 + number % 2, seed=number)
        expected = on_cpu(model, feeds)
        for _ in range(RUNS):
            assert_results(session, feeds, expected)

    run(0)  # builds the CANN provider's sub-models, whose table no lock protects
    run(1)
    in_threads(run)


def check_sessions_in_threads(order: str, mode: str) -> None:
    model = model_of(ALTERNATING)
    sessions = [open_mixed(model, order, mode) for _ in range(2)]
    for session in sessions:
        session.run(None, feeds_of(1))

    def run(number: int) -> None:
        feeds = feeds_of(1, seed=number)
        expected = on_cpu(model, feeds)
        for turn in range(RUNS):
            assert_results(sessions[(number + turn) % 2], feeds, expected)

    in_threads(run)


def check_device_tensors(order: str, mode: str) -> None:
    """Inputs and outputs that stay on the device: a Run copies nothing."""
    model = model_of(ALTERNATING)
    session = open_mixed(model, order, mode)
    for seed in range(3):
        feeds = feeds_of(2, seed)
        expected = on_cpu(model, feeds)
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, on_npu(array))
        results = [on_npu(np.zeros_like(array)) for array in expected]
        for output, value in zip(session.get_outputs(), results, strict=True):
            binding.bind_ortvalue_output(output.name, value)
        assert count_copies(lambda binding=binding: session.run_with_iobinding(binding)) == {}
        for value, array in zip(results, expected, strict=True):
            assert_same_bits(on_host(value, array), array)


def check_chained_runs(order: str, mode: str) -> None:
    """An output on the device is an input of the next Run, without a wait between the Runs."""
    model = model_of(ALTERNATING)
    session = open_mixed(model, order, mode)
    feeds = feeds_of(2)
    x = feeds["x"]
    value, other = on_npu(x), on_npu(np.zeros_like(x))
    y = on_npu(np.zeros_like(on_cpu(model, feeds)[1]))
    for _ in range(4):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_cpu_input("b", feeds["b"])
        binding.bind_ortvalue_output("out", other)
        binding.bind_ortvalue_output("y", y)
        session.run_with_iobinding(binding)
        x = on_cpu(model, {"x": x, "b": feeds["b"]})[0]
        value, other = other, value
    assert_same_bits(on_host(value, x), x)


def in_threads(run: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def on_npu(array: Array) -> Any:
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "npu", 0, HUAWEI)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
    return value


def on_host(value: Any, like: Array) -> Array:
    target = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(like))
    ort.copy_tensors([value], [target])
    return np.array(target.numpy())


@pytest.mark.parametrize(
    "check",
    [
        check_shapes_of_one_session,
        check_dynamic_batch,
        check_overlapping_runs,
        check_sessions_in_threads,
        check_device_tensors,
        check_chained_runs,
    ],
)
def test_mixed(check: Callable[..., None], order: str, mode: str) -> None:
    on_device(check, order, mode)
