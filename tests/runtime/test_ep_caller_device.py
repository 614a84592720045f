# SPDX-License-Identifier: Apache-2.0

"""Every call of the provider restores the current device of the calling thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import get_host_library_path, register
from tests.harness.sessions.device_process import on_device
from tests.harness.sessions.host_control import HostLibrary
from tests.runtime.device_models import ALONE, CHAIN, DEEP, alone_feeds, assert_right, image, open_session

TWO = {"ACLNN_HOST_DEVICES": "2"}
NO_CONTEXT = 107002


class Caller:
    """A library that uses acl on this thread, beside the provider: it has set device 1."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL(get_host_library_path())
        self._c.aclInit(None)
        assert self._c.aclrtSetDevice(1) == 0
        self._context = self._current_context()

    def assert_unchanged(self) -> None:
        device = ctypes.c_int32(-1)
        assert self._c.aclrtGetDevice(ctypes.byref(device)) == 0
        assert device.value == 1
        assert self._current_context() == self._context

    def _current_context(self) -> int | None:
        context = ctypes.c_void_p()
        assert self._c.aclrtGetCurrentContext(ctypes.byref(context)) == 0
        return context.value


def check_sessions() -> None:
    """Sessions are created, run, in error, and released, with tensors in device memory and in host memory."""
    library = HostLibrary()
    caller = Caller()
    register()
    caller.assert_unchanged()
    for text, memory in ((CHAIN, "device"), (CHAIN, "host"), (DEEP, "device")):
        session = open_session(text, memory=memory)
        caller.assert_unchanged()
        for size in (16, 32, 64):
            assert_right(session, text, {"x": image(1, 2, size, size)})
            caller.assert_unchanged()
        for function in ("aclrtSynchronizeStream", "aclrtMalloc", "aclrtMemcpyAsync", "aclrtCreateStream"):
            library.fail(function, 1, 507899)
            attempt(lambda session=session: session.run(None, {"x": image(1, 2, 128, 128)}))
            caller.assert_unchanged()
            library.heal(tolerated="race")
            assert_right(session, text, {"x": image(1, 2, 16, 16)})
            caller.assert_unchanged()
        del session
        caller.assert_unchanged()


def check_values_on_the_device() -> None:
    caller = Caller()
    session = open_session(ALONE)
    feeds = alone_feeds(2, 3, 8, 8)
    binding = session.io_binding()
    for name, array in feeds.items():
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "npu", 0, 0x19E5)
        caller.assert_unchanged()
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
        caller.assert_unchanged()
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("dx")
    session.run_with_iobinding(binding)
    caller.assert_unchanged()
    del binding, value
    caller.assert_unchanged()


def check_threads() -> None:
    session = open_session(CHAIN)

    def run(number: int) -> None:
        caller = Caller()
        for _ in range(10):
            assert_right(session, CHAIN, {"x": image(1, 2, 8, 4 + 2 * number, seed=number)})
            caller.assert_unchanged()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


def check_a_thread_without_a_device_keeps_the_sessions() -> None:
    session = open_session(CHAIN)
    seen = []

    def run() -> None:
        c, device = ctypes.CDLL(get_host_library_path()), ctypes.c_int32(-1)
        seen.append(c.aclrtGetDevice(ctypes.byref(device)))
        assert_right(session, CHAIN, {"x": image(1, 2, 8, 8)})
        seen.extend([c.aclrtGetDevice(ctypes.byref(device)), device.value])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [NO_CONTEXT, 0, 0]


def check_where_nothing_changes_nothing_is_set() -> None:
    session = open_session(CHAIN)
    feeds = {"x": np.zeros((1, 1, 8, 8), np.float32)}
    session.run(None, feeds)
    calls = [call.get("call") for call in HostLibrary().trace(lambda: session.run(None, feeds))]
    assert "aclrtGetDevice" in calls
    assert not {"aclrtSetDevice", "aclrtGetCurrentContext", "aclrtSetCurrentContext"} & {*calls}


def attempt(run: Callable[[], Any]) -> None:
    try:
        run()
    except Exception:
        return


@pytest.mark.parametrize(
    "check",
    [
        check_sessions,
        check_values_on_the_device,
        check_threads,
        check_a_thread_without_a_device_keeps_the_sessions,
        check_where_nothing_changes_nothing_is_set,
    ],
)
def test_beside_a_library_that_set_another_device(check: Callable[[], None]) -> None:
    on_device(check, **TWO)
