# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: initialization, the device and its parameters, streams, memory, messages."""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_int32, c_int64, c_uint32, c_void_p

import pytest

from tests.runtime.aclnn_ctypes import Aclnn, current_device, initialized, int64s, library

INVALID, UNINITIALIZED, REPEATED = 100000, 100001, 100002
PARAM_INVALID, INVALID_DEVICE, NO_CONTEXT, NOT_SET = 107000, 107001, 107002, 107021
NO_DEVICE, UNSUPPORTED, NO_MEMORY = 207004, 207000, 207001


def test_initialization_is_once_until_finalized() -> None:
    with initialized() as aclnn:
        aclnn.message()  # of a test before
        assert aclnn.c.aclInit(None) == REPEATED
        assert aclnn.message() is None  # CANN counts these calls, and reports no error
    assert library().c.aclFinalize() == 100037
    assert library().c.aclrtSetDevice(0) == UNINITIALIZED
    assert "aclInit" in (library().message() or "")


@pytest.mark.parametrize("soc", [None, "Ascend910B", "Ascend910B2C", "Ascend910_9391", "Ascend310P3", "Ascend310B4"])
def test_soc_name(soc: str | None) -> None:
    with initialized(soc) as aclnn:
        assert aclnn.c.aclrtGetSocName().decode() == (soc or "Ascend950PR_9599")
    assert library().c.aclrtGetSocName() is None


@pytest.mark.parametrize("soc", ["", "Ascend950", "ascend910b1", "Ascend910B1 "])
def test_soc_names_are_exact(soc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_HOST_SOC", soc)
    assert library().c.aclInit(None) == NO_DEVICE
    message = library().message() or ""
    assert "aclInit: ACLNN_HOST_SOC" in message
    assert f'"{soc}"' in message
    assert library().c.aclrtSetDevice(0) == UNINITIALIZED


def test_device(aclnn: Aclnn) -> None:
    count, device = c_uint32(), c_int32(-1)
    assert aclnn.c.aclrtGetDeviceCount(ctypes.byref(count)) == 0
    assert count.value == 1
    assert aclnn.c.aclrtGetDevice(ctypes.byref(device)) == 0
    assert device.value == 0
    for wrong in (-1, 1):
        assert aclnn.c.aclrtSetDevice(wrong) == INVALID_DEVICE
        assert aclnn.c.aclrtResetDevice(wrong) == INVALID_DEVICE
    assert aclnn.c.aclrtGetDevice(None) == aclnn.c.aclrtGetDeviceCount(None) == INVALID


def test_device_is_per_thread_and_counted(aclnn: Aclnn) -> None:
    seen = []

    def other_thread() -> None:
        device = c_int32()
        seen.append(aclnn.c.aclrtGetDevice(ctypes.byref(device)))
        seen.append(aclnn.c.aclrtSetDevice(0))
        seen.append(aclnn.c.aclrtGetDevice(ctypes.byref(device)))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert seen == [NO_CONTEXT, 0, 0]
    device = c_int32()
    assert aclnn.c.aclrtResetDevice(0) == 0
    assert aclnn.c.aclrtGetDevice(ctypes.byref(device)) == 0  # the other thread's reference keeps the context
    assert aclnn.c.aclrtResetDevice(0) == 0
    assert aclnn.c.aclrtGetDevice(ctypes.byref(device)) == NO_CONTEXT
    assert aclnn.c.aclrtResetDevice(0) == NO_CONTEXT
    assert aclnn.c.aclrtSetDevice(0) == 0


def test_finalizing_ends_the_current_device() -> None:
    with current_device():
        pass
    with initialized() as aclnn:
        assert aclnn.c.aclrtGetDevice(ctypes.byref(c_int32())) == NO_CONTEXT


def test_sys_params(aclnn: Aclnn) -> None:
    value = c_int64(-1)
    assert aclnn.c.aclrtCtxGetSysParamOpt(0, ctypes.byref(value)) == NOT_SET
    assert aclnn.c.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
    assert value.value == 0
    assert aclnn.c.aclrtCtxSetSysParamOpt(0, 1) == 0
    for get in (aclnn.c.aclrtCtxGetSysParamOpt, aclnn.c.aclrtGetSysParamOpt):
        value.value = -1
        assert get(0, ctypes.byref(value)) == 0
        assert value.value == 1
    assert aclnn.c.aclrtSetSysParamOpt(0, 0) == 0
    assert aclnn.c.aclrtCtxGetSysParamOpt(0, ctypes.byref(value)) == 0
    assert value.value == 1
    assert aclnn.c.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
    assert value.value == 0


def test_sys_params_refuse(aclnn: Aclnn) -> None:
    value = c_int64()
    for option in (-1, 77):
        assert aclnn.c.aclrtCtxSetSysParamOpt(option, 1) == PARAM_INVALID
        assert aclnn.c.aclrtSetSysParamOpt(option, 1) == PARAM_INVALID
        assert aclnn.c.aclrtCtxGetSysParamOpt(option, ctypes.byref(value)) == PARAM_INVALID
        assert aclnn.c.aclrtGetSysParamOpt(option, ctypes.byref(value)) == PARAM_INVALID
    assert aclnn.c.aclrtCtxGetSysParamOpt(0, None) == aclnn.c.aclrtGetSysParamOpt(0, None) == INVALID
    assert aclnn.c.aclrtResetDevice(0) == 0
    assert aclnn.c.aclrtCtxSetSysParamOpt(0, 1) == NO_CONTEXT
    assert aclnn.c.aclrtCtxGetSysParamOpt(0, ctypes.byref(value)) == NO_CONTEXT


def test_streams(aclnn: Aclnn) -> None:
    stream = c_void_p()
    assert aclnn.c.aclrtCreateStream(ctypes.byref(stream)) == 0
    assert stream.value
    assert aclnn.c.aclrtSynchronizeStream(stream) == 0
    assert aclnn.c.aclrtSynchronizeStream(None) == 0
    assert aclnn.c.aclrtDestroyStream(stream) == 0
    assert aclnn.c.aclrtCreateStream(None) == aclnn.c.aclrtDestroyStream(None) == INVALID
    aclnn.c.aclrtResetDevice(0)
    assert aclnn.c.aclrtCreateStream(ctypes.byref(stream)) == NO_CONTEXT
    assert aclnn.c.aclrtSynchronizeStream(None) == NO_CONTEXT


def test_run_mode_and_version(aclnn: Aclnn) -> None:
    mode, version = ctypes.c_int(-1), ctypes.create_string_buffer(128)
    assert aclnn.c.aclrtGetRunMode(ctypes.byref(mode)) == 0
    assert mode.value == 0  # ACL_DEVICE
    assert aclnn.c.aclsysGetVersionStr(b"runtime", version) == 0
    assert version.value == b"8.5.0.host"
    assert aclnn.c.aclrtGetRunMode(None) == aclnn.c.aclsysGetVersionStr(None, version) == INVALID
    assert aclnn.c.aclsysGetVersionStr(b"runtime", None) == INVALID


def test_events_are_complete_once_recorded(aclnn: Aclnn) -> None:
    stream, event, status = c_void_p(), c_void_p(), ctypes.c_int(-1)
    assert aclnn.c.aclrtCreateStream(ctypes.byref(stream)) == 0
    assert aclnn.c.aclrtCreateEventWithFlag(ctypes.byref(event), 1) == 0
    assert aclnn.c.aclrtQueryEventStatus(event, ctypes.byref(status)) == 0
    assert status.value == 0
    assert aclnn.c.aclrtRecordEvent(event, stream) == 0
    assert aclnn.c.aclrtStreamWaitEvent(None, event) == aclnn.c.aclrtSynchronizeEvent(event) == 0
    assert aclnn.c.aclrtQueryEventStatus(event, ctypes.byref(status)) == 0
    assert status.value == 1
    assert aclnn.c.aclrtStreamQuery(stream, ctypes.byref(status)) == 0
    assert status.value == 0
    assert aclnn.c.aclrtDestroyEvent(event) == aclnn.c.aclrtDestroyStream(stream) == 0


def test_events_refuse(aclnn: Aclnn) -> None:
    event, status = c_void_p(), ctypes.c_int()
    c = aclnn.c
    assert c.aclrtCreateEventWithFlag(None, 1) == c.aclrtDestroyEvent(None) == INVALID
    assert c.aclrtRecordEvent(None, None) == c.aclrtStreamWaitEvent(None, None) == INVALID
    assert c.aclrtSynchronizeEvent(None) == c.aclrtQueryEventStatus(None, ctypes.byref(status)) == INVALID
    assert c.aclrtCreateEventWithFlag(ctypes.byref(event), 1) == 0
    assert c.aclrtQueryEventStatus(event, None) == c.aclrtStreamQuery(None, None) == INVALID
    c.aclrtResetDevice(0)
    assert c.aclrtRecordEvent(event, None) == c.aclrtStreamWaitEvent(None, event) == NO_CONTEXT
    assert c.aclrtCreateEventWithFlag(ctypes.byref(c_void_p()), 1) == NO_CONTEXT
    assert c.aclrtSynchronizeEvent(event) == c.aclrtStreamQuery(None, ctypes.byref(status)) == NO_CONTEXT
    assert c.aclrtDestroyEvent(event) == 0


def test_memory_info(aclnn: Aclnn) -> None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    for kind in (0, 1):
        assert aclnn.c.aclrtGetMemInfo(kind, ctypes.byref(free), ctypes.byref(total)) == 0
        assert 0 < free.value < total.value
    assert aclnn.c.aclrtGetMemInfo(2, ctypes.byref(free), ctypes.byref(total)) == PARAM_INVALID
    assert aclnn.c.aclrtGetMemInfo(0, None, ctypes.byref(total)) == INVALID
    assert aclnn.c.aclrtGetMemInfo(0, ctypes.byref(free), None) == INVALID


def test_memory_keeps_what_is_copied(aclnn: Aclnn) -> None:
    device, host = c_void_p(), c_void_p()
    assert aclnn.c.aclrtMalloc(ctypes.byref(device), 5, 0) == 0
    assert aclnn.c.aclrtMallocHost(ctypes.byref(host), 5) == 0
    assert device.value
    assert device.value % 64 == 0
    back = ctypes.create_string_buffer(5)
    assert aclnn.c.aclrtMemcpy(device, 5, b"abcde", 5, 1) == 0
    assert aclnn.c.aclrtMemcpyAsync(host, 5, device, 5, 2, None) == 0
    assert aclnn.c.aclrtMemset(device, 5, 0x58, 2) == 0
    assert aclnn.c.aclrtMemcpy(back, 5, device, 5, 2) == 0
    assert back.raw == b"XXcde"
    assert aclnn.c.aclrtMemsetAsync(device, 5, 0x59, 5, None) == 0
    assert aclnn.c.aclrtMemcpyAsync(device, 5, host, 1, 1, None) == 0
    assert aclnn.c.aclrtMemcpy(back, 5, device, 5, 2) == 0
    assert back.raw == b"aYYYY"
    assert aclnn.c.aclrtFree(device) == aclnn.c.aclrtFreeHost(host) == 0


def test_memory_refuses(aclnn: Aclnn) -> None:
    memory = c_void_p()
    assert aclnn.c.aclrtMalloc(None, 1, 0) == aclnn.c.aclrtMalloc(ctypes.byref(memory), 0, 0) == INVALID
    assert aclnn.c.aclrtMallocHost(None, 1) == aclnn.c.aclrtMallocHost(ctypes.byref(memory), 0) == INVALID
    assert aclnn.c.aclrtMalloc(ctypes.byref(memory), 2**64 - 1, 0) == NO_MEMORY
    assert memory.value is None
    assert aclnn.c.aclrtFree(None) == aclnn.c.aclrtFreeHost(None) == INVALID
    a, b = ctypes.create_string_buffer(4), ctypes.create_string_buffer(4)
    for count in (0, 5):
        assert aclnn.c.aclrtMemcpy(a, 4, b, count, 1) == PARAM_INVALID
        assert aclnn.c.aclrtMemcpyAsync(a, 4, b, count, 1, None) == PARAM_INVALID
        assert aclnn.c.aclrtMemset(a, 4, 1, count) == aclnn.c.aclrtMemsetAsync(a, 4, 1, count, None) == PARAM_INVALID
    assert aclnn.c.aclrtMemcpy(None, 4, b, 4, 1) == aclnn.c.aclrtMemcpy(a, 4, None, 4, 1) == INVALID
    assert aclnn.c.aclrtMemset(None, 4, 1, 4) == INVALID
    assert aclnn.c.aclrtMemcpy(a, 4, b, 4, 9) == PARAM_INVALID
    assert aclnn.c.aclrtMemcpyAsync(a, 4, b, 4, 0, None) == UNSUPPORTED  # host to host
    assert a.raw == b.raw == bytes(4)
    aclnn.c.aclrtResetDevice(0)
    assert aclnn.c.aclrtMalloc(ctypes.byref(memory), 4, 0) == NO_CONTEXT
    assert aclnn.c.aclrtMemcpy(a, 4, b, 4, 1) == aclnn.c.aclrtMemset(a, 4, 1, 4) == NO_CONTEXT


def test_messages_are_per_thread_and_read_once(aclnn: Aclnn) -> None:
    assert aclnn.message() is None
    assert aclnn.c.aclrtSetDevice(7) == INVALID_DEVICE
    in_other_thread: list[str | None] = []
    thread = threading.Thread(target=lambda: in_other_thread.append(aclnn.message()))
    thread.start()
    thread.join()
    assert in_other_thread == [None]
    message = aclnn.message() or ""
    assert message.startswith("aclrtSetDevice: device 7")
    assert "(107001 ACL_ERROR_RT_INVALID_DEVICEID)" in message
    assert aclnn.message() is None


def test_tensors_and_int_arrays_refuse(aclnn: Aclnn) -> None:
    dims = int64s([2, 3])

    def create(view: object, view_rank: int, storage: object, storage_rank: int) -> int | None:
        handle: int | None = aclnn.c.aclCreateTensor(view, view_rank, 0, None, 0, 2, storage, storage_rank, None)
        return handle

    assert create(None, 2, dims, 2) is None
    assert "viewDims is null" in (aclnn.message() or "")
    assert create(dims, 2, None, 2) is None
    assert "storageDims is null" in (aclnn.message() or "")
    assert create(int64s([2, -3]), 2, dims, 2) is None
    assert "[2, -3]" in (aclnn.message() or "")
    assert create(int64s([2**40, 2**40]), 2, dims, 2) is None
    assert aclnn.c.aclCreateIntArray(None, 1) is None
    assert aclnn.c.aclDestroyTensor(None) == aclnn.c.aclDestroyIntArray(None) == 0
    for handle in (create(dims, 2, dims, 2), create(int64s([2**40, 2**40, 0]), 3, dims, 2), create(None, 0, None, 0)):
        assert handle is not None
        assert aclnn.c.aclDestroyTensor(handle) == 0
