# SPDX-License-Identifier: Apache-2.0

"""Sessions on several devices of one process: each uses its own, also if a call fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import SessionError, create_session, get_ep_name, register
from tests.harness.cann.installations import install
from tests.harness.sessions.device_process import STRICT, on_device
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.failure_sweep import RELEASES
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import (
    ALONE,
    BRANCH,
    CHAIN,
    alone_feeds,
    assert_right,
    expected,
    image,
    model_of,
    open_session,
)

DEVICES = 3
SEVERAL = {"ACLNN_HOST_DEVICES": str(DEVICES)}
FAULT = 507899


def ep_devices() -> list[Any]:
    register()
    return [device for device in ort.get_ep_devices() if device.ep_name == get_ep_name()]


def on_npu(array: Any, device: int) -> Any:
    register()
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "npu", device, 0x19E5)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
    return value


def fetched(value: Any, like: Any) -> Any:
    target = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(like))
    ort.copy_tensors([value], [target])
    return np.array(target.numpy())


def set_devices(run: Callable[[], object]) -> set[int]:
    """The devices that `run` makes current."""
    return {call["deviceId"] for call in HostLibrary().trace(run) if call.get("call") == "aclrtSetDevice"}


def check_each_is_listed_and_opened_when_needed() -> None:
    assert set_devices(register) == {0}
    assert [device.ep_metadata["device_id"] for device in ep_devices()] == [str(number) for number in range(DEVICES)]
    assert set_devices(lambda: open_session(CHAIN, device_id="1")) == {1}


def check_one_session_on_each() -> None:
    sessions = [open_session(CHAIN, device_id=str(number)) for number in range(DEVICES)]
    staged = [open_session(CHAIN, device_id=str(number), memory="host") for number in range(DEVICES)]
    for size in (4, 8, 64):
        for session in (*sessions, *staged):
            assert_right(session, CHAIN, {"x": image(2, 3, size, size)})


def check_threads() -> None:
    texts = {CHAIN: lambda seed: {"x": image(2, 2, 8, 6, seed=seed)}}
    texts[BRANCH] = lambda seed: {"x": image(2, 2, 8, 6, seed=seed), "first": np.array(seed % 2 == 0)}
    sessions = {
        (text, number): open_session(text, device_id=str(number)) for text in texts for number in range(DEVICES)
    }

    def run(thread: int) -> None:
        for turn in range(12):
            for text, feeds in texts.items():
                assert_right(sessions[text, (thread + turn) % DEVICES], text, feeds(thread))

    with ThreadPoolExecutor(2 * DEVICES) as pool:
        list(pool.map(run, range(2 * DEVICES)))


def check_values_on_a_device() -> None:
    feeds = alone_feeds(2, 3, 8, 8)
    (wanted,) = expected(ALONE, feeds)
    for number in range(DEVICES):
        session = open_session(ALONE, device_id=str(number))
        binding = session.io_binding()
        values = {name: on_npu(array, number) for name, array in feeds.items()}
        dx = on_npu(np.zeros_like(wanted), number)
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("dx", dx)
        session.run_with_iobinding(binding)  # the first also reads the indices back
        calls = HostLibrary().trace(functools.partial(session.run_with_iobinding, binding))
        kinds = [call["kind"] for call in calls if call.get("call") == "aclrtMemcpyAsync"]
        assert kinds == [2]  # the indices are read back; nothing else is copied
        assert_same_bits(fetched(dx, wanted), wanted)


def check_copies_between_devices() -> None:
    for array in (image(1, 1, 2, 2), image(3, 1, 1024, 1024), np.zeros((0, 2), np.float32)):
        first = on_npu(array, 0)
        second = on_npu(np.zeros_like(array), 1)
        third = on_npu(np.zeros_like(array), 2)
        ort.copy_tensors([first], [second])
        ort.copy_tensors([second], [third])
        assert_same_bits(fetched(third, array), array)


def check_a_session_takes_values_of_another_device() -> None:
    feeds = alone_feeds(2, 3, 8, 8)
    session = open_session(ALONE, device_id="1")
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, on_npu(array, 2))
    binding.bind_output("dx")
    session.run_with_iobinding(binding)
    assert_same_bits(binding.copy_outputs_to_cpu()[0], expected(ALONE, feeds)[0])


def check_an_error_stays_on_its_device() -> None:
    library = HostLibrary()
    feeds = alone_feeds(1, 2, 6, 6)
    bad = {**feeds, "argmax": feeds["argmax"] + 36}
    broken, other = (open_session(ALONE, device_id=number, check_indices="0") for number in ("0", "1"))
    for _ in range(3):
        with pytest.raises(Exception, match="507015"):
            broken.run(None, bad)
        assert_right(other, ALONE, feeds)
        assert_right(broken, ALONE, feeds)
    library.heal()


def check_the_option() -> None:
    model, feeds = model_of(CHAIN), {"x": image(1, 2, 8, 8)}
    for device_id in ("x", "-1", "3"):
        with pytest.raises(SessionError, match=f"device_id is '{device_id}'; it takes 0, 1, 2"):
            create_session(model, backend="host", device_id=device_id)
    devices = ep_devices()
    for given, options, device in (
        (devices[1:2], {}, 1),
        (devices[1:2], {"device_id": "1"}, 1),
        (devices[:1], {"device_id": "1"}, "'1', and the session was given the OrtEpDevice of device 0"),
        (devices[:1], {"device_id": "x"}, "device_id is 'x'; it takes a number from 0"),
    ):
        session_options = ort.SessionOptions()
        session_options.add_provider_for_devices(given, options)

        def make(session_options: Any = session_options) -> Any:
            return ort.InferenceSession(model.SerializeToString(), session_options, enable_fallback=0)

        if isinstance(device, str):
            with pytest.raises(Exception, match=device):
                make()
        else:
            assert set_devices(make) <= {device}
            assert_right(make(), CHAIN, feeds)


def check_nothing_is_left() -> None:
    library = HostLibrary()
    kinds = ("stream", "event", "device_memory", "pinned_memory", "executor", "tensor")

    def run_all() -> dict[str, int]:
        for number in range(DEVICES):
            assert_right(open_session(CHAIN, device_id=str(number)), CHAIN, {"x": image(1, 2, 8, 8)})
        return {kind: library.live(kind) for kind in kinds}

    assert run_all() == run_all()


@pytest.mark.parametrize(
    "check",
    [
        check_each_is_listed_and_opened_when_needed,
        check_one_session_on_each,
        check_threads,
        check_values_on_a_device,
        check_copies_between_devices,
        check_a_session_takes_values_of_another_device,
        check_an_error_stays_on_its_device,
        check_the_option,
        check_nothing_is_left,
    ],
)
def test_several_devices(check: Callable[[], None]) -> None:
    on_device(check, **SEVERAL)


_BY_NAME = """
import onnxruntime as ort
from tests.runtime.device_models import CHAIN, assert_right, image, model_of
from tests.harness.sessions.host_control import HostLibrary
from poolgrad_lowering.runtime import create_session, get_backend, get_ep_name, register
register()
feeds = {"x": image(1, 2, 8, 8)}
model = model_of(CHAIN)
devices = [device for device in ort.get_ep_devices() if device.ep_name == get_ep_name()]
for number in range(len(devices)):
    assert_right(create_session(model, backend="cann", device_id=str(number)), CHAIN, feeds)
    if tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 31):
        options = {"device_id": str(number)}
        session = ort.InferenceSession(model.SerializeToString(), providers=[(get_ep_name(), options)])
        assert session.get_providers()[0] == get_ep_name()
        assert_right(session, CHAIN, feeds)
answer([len(devices), [device.device.type.name for device in devices], HostLibrary().violations()])
"""


def test_npus(tmp_path: Path) -> None:
    """With the libraries of CANN, and by the provider's name with a device_id."""
    environment = {**STRICT, **SEVERAL, "ASCEND_HOME_PATH": str(install(tmp_path / "cann"))}
    assert run_python(_BY_NAME, **environment) == [DEVICES, ["NPU"] * DEVICES, []]


def test_device_that_a_backend_does_not_have() -> None:
    with pytest.raises(SessionError, match="device_id is '1'; it takes 0"):
        create_session(model_of(CHAIN), backend="host", device_id="1")


SOCS = ("Ascend950PR_9599", "Ascend910B1")
RUNS = ("run_fetched", "run_bound")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("soc", SOCS)
def test_each_call(soc: str, run: str) -> None:
    for outcome in outcomes(soc, f"sweep(Sessions({run}, threads=1))"):
        check(outcome)
        ((function, _, _),) = outcome["faults"]
        released = RELEASES.get(function)
        assert outcome["grown"] == ({released: 1} if released else {}), outcome


@pytest.mark.parametrize("soc", SOCS)
def test_calls_of_threads(soc: str) -> None:
    check_all(soc, "sweep(Sessions(run_fetched, threads=3), thorough=False)")


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("soc", SOCS)
def test_each_call_of_threads(soc: str, run: str) -> None:
    check_all(soc, f"sweep(Sessions({run}, threads=4))")


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
def test_waits_that_fail_again(run: str) -> None:
    """The first wait, those that follow it to end the stream, and the stream's destruction."""
    sweep = f"sweep_waits(Sessions({run}, threads=1), times=times, destroyed=destroyed)"
    check_all(SOCS[0], f"[one for times in (2, 3, 4) for destroyed in (True, False) for one in {sweep}]")


@pytest.mark.long
@pytest.mark.parametrize("times", [2, 3])
def test_waits_of_threads_that_fail_again(times: int) -> None:
    check_all(SOCS[1], f"sweep_waits(Sessions(run_fetched, threads=3), times={times}, destroyed=True)")


def outcomes(soc: str, swept: str) -> list[dict[str, Any]]:
    code = f"from tests.harness.sessions.several_device_sweep import *; answer({swept})"
    found: list[dict[str, Any]] = run_python(code, ACLNN_HOST_DEVICES="2", ACLNN_HOST_SOC=soc, **STRICT)
    assert found
    return found


def check_all(soc: str, swept: str) -> None:
    for outcome in outcomes(soc, swept):
        check(outcome)


def check(outcome: dict[str, Any]) -> None:
    assert not outcome["wrong"], outcome
    assert outcome["violations"] == [], outcome
    assert outcome["recovered"], outcome
