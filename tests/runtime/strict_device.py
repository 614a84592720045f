# SPDX-License-Identifier: Apache-2.0

"""A correct caller of the strict library: buffers, streams and two-phase calls in device memory."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterator
from ctypes import c_uint64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.runtime.aclnn_ctypes import Aclnn, Call, Tensor, current_device

Array = npt.NDArray[Any]
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
MODES = ("lenient", "strict")


class StrictDevice:
    """The strict library on this thread, with helpers for tests; a failed call raises AssertionError."""

    def __init__(self, aclnn: Aclnn) -> None:
        self.aclnn = aclnn
        self.c = aclnn.c

    def check(self, code: int) -> None:
        """Require success."""
        assert code == 0, self.aclnn.message()

    def message(self) -> str | None:
        """Read and clear this thread's message."""
        return self.aclnn.message()

    def malloc(self, size: int) -> int:
        """Return new device memory."""
        address = c_void_p()
        self.check(self.c.aclrtMalloc(ctypes.byref(address), size, 0))
        assert address.value is not None
        return address.value

    def malloc_host(self, size: int) -> int:
        """Return new pinned memory."""
        address = c_void_p()
        self.check(self.c.aclrtMallocHost(ctypes.byref(address), size))
        assert address.value is not None
        return address.value

    def upload(self, array: Array) -> int:
        """Return new device memory that holds the array's bytes."""
        address = self.malloc(array.nbytes)
        self.check(self.c.aclrtMemcpy(address, array.nbytes, array.ctypes.data, array.nbytes, TO_DEVICE))
        return address

    def download(self, address: int, like: Array) -> Array:
        """Return an array with the bytes at a device address."""
        array = np.empty_like(like, order="C")
        self.check(self.c.aclrtMemcpy(array.ctypes.data, array.nbytes, address, array.nbytes, TO_HOST))
        return array

    def free(self, *addresses: int) -> None:
        """Free device memory."""
        for address in addresses:
            self.check(self.c.aclrtFree(address))

    def stream(self) -> int:
        """Return a new stream."""
        stream = c_void_p()
        self.check(self.c.aclrtCreateStream(ctypes.byref(stream)))
        assert stream.value is not None
        return stream.value

    def event(self) -> int:
        """Return a new event."""
        event = c_void_p()
        self.check(self.c.aclrtCreateEventWithFlag(ctypes.byref(event), 1))
        assert event.value is not None
        return event.value

    def destroy(self, *, streams: tuple[int, ...] = (), events: tuple[int, ...] = ()) -> None:
        """Destroy streams and events."""
        for stream in streams:
            self.check(self.c.aclrtDestroyStream(stream))
        for event in events:
            self.check(self.c.aclrtDestroyEvent(event))

    def pending(self, stream: int | None) -> bool:
        """Whether the stream has queued work."""
        status = ctypes.c_int(-1)
        self.check(self.c.aclrtStreamQuery(stream, ctypes.byref(status)))
        return status.value == 1

    def phase_1(self, api: str, arguments: list[Any]) -> tuple[int, int]:
        """Phase 1: return executor and workspace size."""
        size, executor = c_uint64(), c_void_p()
        self.check(getattr(self.c, f"{api}GetWorkspaceSize")(*arguments, ctypes.byref(size), ctypes.byref(executor)))
        assert executor.value is not None
        return executor.value, size.value

    def execute(self, api: str, executor: int, workspace: int | None, size: int, stream: int | None = None) -> int:
        """Phase 2: return its code."""
        code: int = getattr(self.c, api)(workspace, size, executor, stream)
        return code

    @contextlib.contextmanager
    def staged(self, call: Call) -> Iterator[tuple[Call, dict[int, int]]]:
        """Bring the arrays of a call to the device: the call there, and device addresses by host address.

        At the end what the device holds is copied back.
        """
        there: dict[int, int] = {}
        owners: dict[int, Array] = {}

        def moved(tensor: Tensor) -> Tensor:
            if tensor.address is None or tensor.owner is None or tensor.owner.nbytes == 0:
                return tensor
            if tensor.address not in there:
                owners[tensor.address] = tensor.owner
                there[tensor.address] = self.upload(tensor.owner)
            return dataclasses.replace(tensor, address=there[tensor.address])

        values = {field.name: getattr(call, field.name) for field in dataclasses.fields(call)}
        tensors = {name: moved(value) for name, value in values.items() if isinstance(value, Tensor)}
        yield dataclasses.replace(call, **tensors), there
        for address, owner in owners.items():
            owner[...] = self.download(there[address], owner)
            self.free(there[address])

    def run(self, api: str, call: Call) -> int:
        """Run both phases on arrays of the host: return the code of phase 2, or of the stream after it."""
        stream = self.stream()
        with self.staged(call) as (on_device, _), self.aclnn.arguments(api, on_device) as arguments:
            executor, size = self.phase_1(api, arguments)
            workspace = self.malloc(size) if size else None
            code = self.execute(api, executor, workspace, size, stream) or self.c.aclrtSynchronizeStream(stream)
            if workspace is not None:
                self.free(workspace)
        self.destroy(streams=(stream,))
        return code


@contextlib.contextmanager
def strict_device(soc: str | None = None) -> Iterator[StrictDevice]:
    """The strict library as the given SoC; at the end no object may be alive, and no violation unread."""
    with current_device(soc, strict=True) as aclnn:
        aclnn.c.aclnnHostReset()
        yield StrictDevice(aclnn)
    assert aclnn.violations() == []


@contextlib.contextmanager
def either_device(mode: str, soc: str | None = None) -> Iterator[Aclnn | StrictDevice]:
    """The library in one of MODES, with `run` and `message`, which behave alike in both."""
    if mode == "strict":
        with strict_device(soc) as strict:
            yield strict
    else:
        with current_device(soc) as aclnn:
            yield aclnn
