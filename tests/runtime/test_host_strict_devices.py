# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict, with several devices: objects of one device cannot be used on another."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import c_int32, c_int64, c_uint32, c_void_p

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import POOL_2D, Backward, current_device, environment, library
from tests.runtime.strict_device import ON_DEVICE, TO_DEVICE, TO_HOST, StrictDevice, strict_device

INVALID, PARAM_INVALID, INVALID_DEVICE, NO_CONTEXT, OTHER_CONTEXT = 100000, 107000, 107001, 107002, 107003
NOT_SET, KERNEL_FAULT = 107021, 507015
DEVICES = 3


@pytest.fixture
def device() -> Iterator[StrictDevice]:
    """The first of several devices, which is current."""
    with environment(ACLNN_HOST_DEVICES=str(DEVICES)), strict_device() as strict:
        yield strict


def current(device: StrictDevice) -> int:
    number = c_int32(-1)
    device.check(device.c.aclrtGetDevice(ctypes.byref(number)))
    return number.value


def context(device: StrictDevice) -> int | None:
    handle = c_void_p()
    device.check(device.c.aclrtGetCurrentContext(ctypes.byref(handle)))
    return handle.value


def assert_broken(device: StrictDevice, count: int) -> None:
    assert device.aclnn.violations() == ["other-device"] * count


def test_count(device: StrictDevice) -> None:
    count = c_uint32()
    device.check(device.c.aclrtGetDeviceCount(ctypes.byref(count)))
    assert count.value == DEVICES
    for number in range(DEVICES):
        device.check(device.c.aclrtSetDevice(number))
        assert current(device) == number
    for wrong in (-1, DEVICES):
        assert device.c.aclrtSetDevice(wrong) == INVALID_DEVICE
    assert current(device) == DEVICES - 1


def test_lenient_library_has_one() -> None:
    count = c_uint32()
    with environment(ACLNN_HOST_DEVICES="2"), current_device() as aclnn:
        assert aclnn.c.aclrtGetDeviceCount(ctypes.byref(count)) == 0
        assert count.value == 1
        assert aclnn.c.aclrtSetDevice(1) == INVALID_DEVICE


@pytest.mark.parametrize("setting", ["0", "65", "-1", "two", "2 "])
def test_setting_that_cannot_be_followed(setting: str) -> None:
    with environment(ACLNN_HOST_DEVICES=setting, ACLNN_HOST_STRICT="1"):
        aclnn = library("strict")
        assert aclnn.c.aclInit(None) == INVALID
        assert f'ACLNN_HOST_DEVICES is "{setting}"; it takes 1 to 64' in (aclnn.message() or "")


def test_contexts(device: StrictDevice) -> None:
    first = context(device)
    device.check(device.c.aclrtSetDevice(1))
    second = context(device)
    assert first != second
    device.check(device.c.aclrtSetCurrentContext(first))
    assert (current(device), context(device)) == (0, first)
    assert device.c.aclrtSetCurrentContext(None) == device.c.aclrtGetCurrentContext(None) == INVALID
    assert device.c.aclrtSetCurrentContext(ctypes.addressof(c_int32())) == NO_CONTEXT
    device.check(device.c.aclrtResetDevice(1))  # its only reference: the context ends
    assert device.c.aclrtSetCurrentContext(second) == NO_CONTEXT
    assert context(device) == first


def test_parameters_are_per_context(device: StrictDevice) -> None:
    value = c_int64()
    device.check(device.c.aclrtCtxSetSysParamOpt(0, 1))
    device.check(device.c.aclrtSetDevice(1))
    assert device.c.aclrtCtxGetSysParamOpt(0, ctypes.byref(value)) == NOT_SET


def test_streams_and_events(device: StrictDevice) -> None:
    c, stream, event, status = device.c, device.stream(), device.event(), ctypes.c_int()
    device.check(c.aclrtSetDevice(1))
    other_stream, other_event = device.stream(), device.event()
    assert c.aclrtSynchronizeStream(stream) == c.aclrtStreamQuery(stream, ctypes.byref(status)) == OTHER_CONTEXT
    assert c.aclrtRecordEvent(event, other_stream) == c.aclrtStreamWaitEvent(other_stream, event) == OTHER_CONTEXT
    assert c.aclrtRecordEvent(other_event, stream) == c.aclrtSynchronizeEvent(event) == OTHER_CONTEXT
    assert c.aclrtDestroyStream(stream) == c.aclrtDestroyEvent(event) == OTHER_CONTEXT
    assert_broken(device, 8)
    device.destroy(streams=(other_stream,), events=(other_event,))
    device.check(c.aclrtSetDevice(0))
    device.destroy(streams=(stream,), events=(event,))


def test_memory(device: StrictDevice) -> None:
    c, eight = device.c, np.zeros(8, np.uint8)
    memory = device.upload(eight)
    device.check(c.aclrtSetDevice(1))
    own, stream, host = device.malloc(8), device.stream(), eight.ctypes.data
    assert c.aclrtMemcpy(memory, 8, host, 8, TO_DEVICE) == c.aclrtMemcpy(host, 8, memory, 8, TO_HOST) == PARAM_INVALID
    assert c.aclrtMemcpy(own, 8, memory, 8, ON_DEVICE) == c.aclrtMemset(memory, 8, 0, 8) == PARAM_INVALID
    assert c.aclrtMemcpyAsync(memory, 8, own, 8, ON_DEVICE, stream) == PARAM_INVALID
    assert c.aclrtMemsetAsync(memory, 8, 0, 8, None) == c.aclrtFree(memory) == PARAM_INVALID
    assert_broken(device, 7)
    device.free(own)
    device.destroy(streams=(stream,))
    device.check(c.aclrtSetDevice(0))
    device.free(memory)


def test_memory_of_a_kernel(device: StrictDevice) -> None:
    values, indices = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.int32)
    call = Backward.of(values, values.copy(), indices, values.copy())
    with device.staged(call) as (there, _), device.aclnn.arguments(POOL_2D, there) as arguments:
        executor, size = device.phase_1(POOL_2D, arguments)
        device.check(device.c.aclrtSetDevice(1))
        stream = device.stream()
        device.check(device.execute(POOL_2D, executor, None, size, stream))
        assert device.c.aclrtSynchronizeStream(stream) == KERNEL_FAULT
        device.destroy(streams=(stream,))
        assert_broken(device, 1)
        device.check(device.c.aclrtSetDevice(0))


def test_pinned_memory_is_for_all(device: StrictDevice) -> None:
    pinned = device.malloc_host(8)
    device.check(device.c.aclrtSetDevice(1))
    memory = device.malloc(8)
    device.check(device.c.aclrtMemcpy(pinned, 8, memory, 8, TO_HOST))
    device.free(memory)
    device.check(device.c.aclrtFreeHost(pinned))


def test_waiting_for_a_device_waits_for_no_other(device: StrictDevice) -> None:
    memory, stream = device.malloc(8), device.stream()
    device.check(device.c.aclrtMemsetAsync(memory, 8, 0, 8, stream))
    device.check(device.c.aclrtSetDevice(1))
    device.check(device.c.aclrtSynchronizeDevice())
    device.check(device.c.aclrtSetDevice(0))
    assert device.pending(stream)
    device.check(device.c.aclrtSynchronizeDevice())
    assert not device.pending(stream)
    device.free(memory)
    device.destroy(streams=(stream,))


def test_a_context_ends_alone(device: StrictDevice) -> None:
    first, stream = device.upload(np.full(8, 7, np.uint8)), device.stream()
    device.check(device.c.aclrtSetDevice(1))
    device.malloc(8)
    device.malloc_host(8)
    device.stream()
    device.event()
    device.check(device.c.aclrtResetDevice(1))
    assert device.aclnn.violations() == ["leak"] * 4
    device.check(device.c.aclrtSetDevice(0))
    assert device.download(first, np.empty(8, np.uint8)).tobytes() == bytes([7] * 8)
    device.free(first)
    device.destroy(streams=(stream,))
