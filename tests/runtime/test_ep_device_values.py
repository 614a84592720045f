# SPDX-License-Identifier: Apache-2.0

"""Values that a user keeps in device memory: filled, bound to inputs and outputs, passed from session to session."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import register
from tests.harness.sessions.device_process import on_device
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import ALONE, CHAIN, GRADIENT, POOL, alone_feeds, expected, image, open_session

NPU = ("npu", 0, 0x19E5)


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:3]))


def bind_new_output(binding: Any, name: str) -> None:
    """Bind the output to device memory that the session allocates."""
    device = ort.OrtDevice.make(*NPU)._get_c_device()
    binding._iobinding.bind_output(name, device)


def device_value(array: Any) -> Any:
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, *NPU)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
    return value


def host_array(value: Any) -> Any:
    target = ort.OrtValue.ortvalue_from_numpy(np.zeros(value.shape(), np.float32))
    ort.copy_tensors([value], [target])
    return np.array(target.numpy())


def run_bound(session: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)


def check_copies() -> None:
    register()
    for shape in [(3,), (0, 4), (), (1024, 1024, 3)]:
        array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        value = device_value(array)
        again = ort.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32, *NPU)
        ort.copy_tensors([value], [again])
        assert_same_bits(host_array(again), array)


def check_bound_on_device() -> None:
    """Nothing is copied in a Run whose inputs and outputs are bound in device memory and trusted."""
    session = open_session(ALONE, check_indices="0")
    library = HostLibrary()
    results = []
    for seed in range(3):
        feeds = alone_feeds(2, 3, 8, 8, seed=seed)
        inputs = {name: device_value(array) for name, array in feeds.items()}
        dx = device_value(np.full(feeds["x"].shape, np.nan, np.float32))
        calls = library.trace(lambda inputs=inputs, dx=dx: run_bound(session, inputs, {"dx": dx}))
        assert not [call["call"] for call in calls if "Memcpy" in call.get("call", "")]
        results.append((dx, expected(ALONE, feeds)[0]))
    for dx, wanted in results:
        assert_same_bits(host_array(dx), wanted)


def check_one_side_bound() -> None:
    session = open_session(CHAIN)
    x = image(2, 3, 8, 6)
    wanted = expected(CHAIN, {"x": x})
    outputs = {name: device_value(np.zeros_like(array)) for name, array in zip(("dx", "y"), wanted, strict=True)}
    run_bound(session, {"x": ort.OrtValue.ortvalue_from_numpy(x)}, outputs)
    for value, array in zip(outputs.values(), wanted, strict=True):
        assert_same_bits(host_array(value), array)
    for found, array in zip(session.run_with_ort_values(None, {"x": device_value(x)}), wanted, strict=True):
        assert_same_bits(found.numpy(), array)


def check_from_session_to_session() -> None:
    """The first session's result is freed while the second may not have computed yet."""
    first, second = open_session(CHAIN), open_session(CHAIN)
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    for seed in range(4):
        x = image(2, 3, 8, 6, seed=seed)
        middle = first.io_binding()
        middle.bind_ortvalue_input("x", device_value(x))
        bind_new_output(middle, "dx")
        first.run_with_iobinding(middle, options)
        (value,) = middle.get_outputs()
        target = device_value(np.zeros_like(x))
        run_bound(second, {"x": value}, {"dx": target})
        (dx, _) = expected(CHAIN, {"x": x})
        assert_same_bits(host_array(target), expected(CHAIN, {"x": dx})[0])


def check_values_outlive_their_session() -> None:
    library = HostLibrary()
    before = library.live("device_memory")
    session = open_session(CHAIN)
    x = image(2, 3, 8, 6)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    bind_new_output(binding, "dx")
    session.run_with_iobinding(binding)
    (dx,) = binding.get_outputs()
    del session, binding
    assert_same_bits(host_array(dx), expected(CHAIN, {"x": x})[0])
    del dx
    assert library.live("device_memory") == before


def check_misaligned_addresses_are_refused() -> None:
    """Memory that a caller binds by its address may have any alignment."""
    session = open_session(ALONE, check_indices="0")
    device = ort.OrtDevice.make(*NPU)._get_c_device()
    feeds = alone_feeds(1, 2, 4, 4)
    values = {name: device_value(np.concatenate([array.ravel()] * 2)) for name, array in feeds.items()}
    for misaligned in feeds:
        binding = session.io_binding()
        for name, array in feeds.items():
            address = values[name].data_ptr() + (16 if name == misaligned else 0)
            binding._iobinding.bind_input(name, device, array.dtype.type, array.shape, address)
        bind_new_output(binding, "dx")
        with pytest.raises(Exception, match=f"{misaligned} begins 16 bytes after a multiple of 32 bytes"):
            session.run_with_iobinding(binding)


def check_tensors_of_a_shared_buffer_are_aligned() -> None:
    """From the second Run on onnxruntime puts tensors of known sizes into one buffer."""
    steps = [(f"y{i}", f"argmax{i}", f"y{i - 1}" if i else "x") for i in range(4)]
    lines = [f"{y}, {argmax} = {POOL} ({x})" for y, argmax, x in steps]
    lines += [
        f"d{i} = {GRADIENT} ({x}, {f'd{i + 1}' if i < 3 else y}, {argmax})" for i, (y, argmax, x) in enumerate(steps)
    ][::-1]
    graph = "aligned (float[1, 3, 31, 31] x) => (float[1, 3, 31, 31] d0) {\n" + "\n".join(lines) + "\n}"
    session = open_session(graph)
    library = HostLibrary()
    x = image(1, 3, 31, 31)
    for _ in range(2):
        calls = library.trace(lambda: session.run(None, {"x": x}))
    allocated = {call["devPtr"] for call in calls if call.get("call") == "aclrtMalloc"}
    used = {call["addr"] for call in calls if call.get("call") == "aclSetTensorAddr"}
    assert len(used) > len(allocated) + 2
    assert not [address for address in used if address % 32]


@pytest.mark.parametrize(
    "check",
    [
        check_copies,
        check_misaligned_addresses_are_refused,
        check_tensors_of_a_shared_buffer_are_aligned,
        check_bound_on_device,
        check_one_side_bound,
        check_from_session_to_session,
        pytest.param(
            check_values_outlive_their_session,
            marks=pytest.mark.skipif(
                release(ort.__version__) < (1, 28, 0),
                reason="onnxruntime 1.24.1 releases the value's memory through the session's provider, which is gone",
            ),
        ),
    ],
)
def test_in_device_memory(check: Any) -> None:
    on_device(check)
