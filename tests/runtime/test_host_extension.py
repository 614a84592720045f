# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: functions and work of a library that implements further functions of CANN with it."""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Callable, Iterator
from ctypes import c_bool, c_char_p, c_int32, c_size_t, c_void_p

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import Aclnn, current_device
from tests.runtime.strict_device import StrictDevice

FAILURE, INVALID, AICORE = 507899, 100000, 507015
BODY = ctypes.CFUNCTYPE(c_int32, c_void_p, ctypes.POINTER(c_char_p))
RUN = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, ctypes.POINTER(c_char_p))
RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
NAMES = (f"aclTest{number}" for number in itertools.count())  # what is declared stays so


class Extension:
    """A library with one function that is declared to the host library."""

    def __init__(self, aclnn: Aclnn) -> None:
        self.aclnn = aclnn
        self.name = next(NAMES).encode()
        self.released = 0
        self._kept: list[object] = []  # callbacks that may still be called
        for function, arguments in (
            (aclnn.c.aclnnHostDeclare, [c_char_p]),
            (aclnn.c.aclnnHostCall, [c_char_p, c_void_p, BODY, c_void_p]),
            (
                aclnn.c.aclnnHostLaunch,
                [c_void_p, c_char_p, c_void_p, c_size_t, c_bool, RUN, RELEASE, c_void_p],
            ),
        ):
            function.argtypes = arguments  # type: ignore[assignment]
        aclnn.c.aclnnHostDeclare(self.name)

    def call(self, body: Callable[[], int], message: bytes | None = None, stream: int | None = None) -> int:
        """The code of a call of the function."""

        def run(_context: int, told: object) -> int:
            told[0] = message  # type: ignore[index]
            return body()

        code: int = self.aclnn.c.aclnnHostCall(self.name, stream, BODY(run), None)
        return code

    def launch(
        self,
        run: Callable[[int | None], int],
        *,
        stream: int | None = None,
        address: int | None = None,
        size: int = 0,
        written: bool = False,
    ) -> int:
        """The code of a call that queues work."""
        callbacks = RUN(lambda _context, memory, _message: run(memory)), RELEASE(self._release)
        self._kept.append(callbacks)
        return self.call(
            lambda: self.aclnn.c.aclnnHostLaunch(stream, b"memory", address, size, written, *callbacks, None)
        )

    def _release(self, _context: int) -> None:
        self.released += 1


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def aclnn(request: pytest.FixtureRequest) -> Iterator[Aclnn]:
    with current_device(strict=request.param) as library:
        library.c.aclnnHostReset()
        yield library
        library.c.aclnnHostReset()


def test_code_and_message_of_a_call(aclnn: Aclnn) -> None:
    extension = Extension(aclnn)
    assert extension.call(lambda: 0, b"not told") == 0
    aclnn.message()
    assert extension.call(lambda: FAILURE, b"the cause") == FAILURE
    assert f"{extension.name.decode()}: the cause (507899 " in (aclnn.message() or "")


def test_calls_are_traced_and_made_to_fail(aclnn: Aclnn) -> None:
    extension = Extension(aclnn)
    assert aclnn.c.aclnnHostFail(b"aclTestUnknown", 1, FAILURE) == INVALID
    assert aclnn.c.aclnnHostFail(extension.name, 2, FAILURE) == 0
    called: list[int] = []
    aclnn.c.aclnnHostTraceStart()
    codes = [extension.call(lambda: called.append(1) or 0) for _ in range(3)]  # type: ignore[func-returns-value]
    aclnn.c.aclnnHostTraceStop()
    assert codes == [0, FAILURE, 0]
    assert len(called) == 2
    lines = [json.loads(line) for line in aclnn.c.aclnnHostTraceRead().splitlines()]
    assert [(line["call"], line["code"]) for line in lines] == [(extension.name.decode(), code) for code in codes]


def test_work_runs_and_is_released(aclnn: Aclnn) -> None:
    extension = Extension(aclnn)
    ran: list[int | None] = []
    assert extension.launch(lambda memory: ran.append(memory) or 0) == 0  # type: ignore[func-returns-value]
    assert aclnn.c.aclrtSynchronizeDevice() == 0
    assert ran == [None]
    assert extension.released == 1


def test_work_reads_when_its_stream_reaches_it(device: StrictDevice) -> None:
    extension = Extension(device.aclnn)
    stream, address = device.stream(), device.upload(np.zeros(4, np.int32))
    values = np.arange(4, dtype=np.int32)
    pinned = device.malloc_host(values.nbytes)
    found: list[bytes] = []

    def read(memory: int | None) -> int:
        found.append(ctypes.string_at(memory or 0, values.nbytes))
        return 0

    device.check(device.c.aclrtMemcpyAsync(address, values.nbytes, pinned, values.nbytes, 1, stream))
    device.check(extension.launch(read, stream=stream, address=address, size=values.nbytes))
    assert found == []
    ctypes.memmove(pinned, values.ctypes.data, values.nbytes)
    device.check(device.c.aclrtSynchronizeStream(stream))
    assert found == [values.tobytes()]
    device.destroy(streams=(stream,))
    device.free(address)
    device.check(device.c.aclrtFreeHost(pinned))


def test_work_of_two_streams_races(device: StrictDevice) -> None:
    extension = Extension(device.aclnn)
    first, second, address = device.stream(), device.stream(), device.malloc(64)
    for stream in (first, second):
        device.check(extension.launch(lambda _: 0, stream=stream, address=address, size=64, written=True))
    assert device.aclnn.violations() == ["race"]
    device.c.aclnnHostReset()
    device.destroy(streams=(first, second))
    device.free(address)


def test_work_that_fails_breaks_its_stream(device: StrictDevice) -> None:
    extension = Extension(device.aclnn)
    stream = device.stream()
    device.check(extension.launch(lambda _: AICORE, stream=stream))
    device.check(extension.launch(lambda _: 0, stream=stream))
    assert device.c.aclrtSynchronizeStream(stream) == AICORE
    assert extension.released == 2
    assert extension.launch(lambda _: 0, stream=stream) == AICORE
    assert extension.released == 3
    device.message()
    device.destroy(streams=(stream,))
