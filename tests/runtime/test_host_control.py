# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: the trace, calls that are made to fail, counts of live objects; by call and by environment."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.sessions.ep_process import run_python
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_FORWARD_2D,
    POOL_2D,
    POOL_3D,
    PROTOTYPES,
    Aclnn,
    Backward,
    Call,
    Forward,
    current_device,
    environment,
    library,
)
from tests.runtime.strict_device import strict_device

INVALID, NO_MEMORY = 100000, 207001
CALL = (np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 1, 1, 1), np.int32))


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def aclnn(request: pytest.FixtureRequest) -> Iterator[Aclnn]:
    with current_device(strict=request.param) as library:
        library.c.aclnnHostReset()
        yield library
        library.c.aclnnHostReset()
        library.c.aclnnHostTraceStop()


def malloc(aclnn: Aclnn) -> int:
    """The code of an allocation, which is freed."""
    address = ctypes.c_void_p()
    code: int = aclnn.c.aclrtMalloc(ctypes.byref(address), 8, 0)
    assert code != 0 or aclnn.c.aclrtFree(address) == 0
    return code


def test_nth_call_fails_and_does_nothing(aclnn: Aclnn) -> None:
    assert aclnn.c.aclnnHostFail(b"aclrtMalloc", 3, NO_MEMORY) == 0
    assert [malloc(aclnn) for _ in range(5)] == [0, 0, NO_MEMORY, 0, 0]
    assert "aclrtMalloc: made to fail by request (207001 " in (aclnn.message() or "")
    assert aclnn.live("device_memory") == 0


def test_every_call_fails_until_the_reset(aclnn: Aclnn) -> None:
    assert aclnn.c.aclnnHostFail(b"aclrtMalloc", 0, NO_MEMORY) == 0
    assert [malloc(aclnn) for _ in range(3)] == [NO_MEMORY] * 3
    aclnn.c.aclnnHostReset()
    assert malloc(aclnn) == 0


def test_requests_count_on_their_own(aclnn: Aclnn) -> None:
    for nth, code in ((1, 1), (3, 3), (2, 2)):
        assert aclnn.c.aclnnHostFail(b"aclrtMalloc", nth, code) == 0
    assert aclnn.c.aclnnHostFail(b"aclrtSetDevice", 1, 9) == 0
    assert [malloc(aclnn) for _ in range(4)] == [1, 2, 3, 0]
    assert aclnn.c.aclrtSetDevice(0) == 9


@pytest.mark.parametrize("function", [b"aclrtMaloc", b"", b"malloc", None])
def test_functions_that_do_not_exist(aclnn: Aclnn, function: bytes | None) -> None:
    assert aclnn.c.aclnnHostFail(function, 1, 1) == INVALID
    assert "there is no function" in (aclnn.message() or "")


def test_success_is_no_failure(aclnn: Aclnn) -> None:
    assert aclnn.c.aclnnHostFail(b"aclrtMalloc", 1, 0) == INVALID


@pytest.mark.parametrize("function", PROTOTYPES)
def test_every_function_can_be_made_to_fail(aclnn: Aclnn, function: str) -> None:
    """With any arguments, because they are not checked."""
    result, arguments = PROTOTYPES[function]
    assert aclnn.c.aclnnHostFail(function.encode(), 1, 77) == 0
    answer = getattr(aclnn.c, function)(*(kind() for kind in arguments))
    assert answer == (77 if result in (ctypes.c_int, ctypes.c_int32) else None)
    assert "made to fail" in (aclnn.message() or "")


def test_phase_2_consumes_its_executor_also_if_it_is_made_to_fail(aclnn: Aclnn) -> None:
    with aclnn.arguments(POOL_2D, Backward.of(*CALL, CALL[1], kernel_size=[2])) as arguments:
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.live("executor") == 1
        aclnn.c.aclnnHostFail(POOL_2D.encode(), 1, 561003)
        assert aclnn.execute(POOL_2D, executor) == 561003
    assert aclnn.live() == 0


def test_repeatable_can_be_refused(aclnn: Aclnn) -> None:
    aclnn.c.aclnnHostFail(b"aclSetAclOpExecutorRepeatable", 0, 561000)
    with aclnn.arguments(POOL_2D, Backward.of(*CALL, CALL[1], kernel_size=[2])) as arguments:
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.c.aclSetAclOpExecutorRepeatable(executor) == 561000
        assert aclnn.c.aclDestroyAclOpExecutor(executor) == 0
    assert aclnn.live() == 0


def test_trace(aclnn: Aclnn) -> None:
    aclnn.c.aclnnHostTraceStart()
    with aclnn.arguments(POOL_2D, Backward.of(*CALL, CALL[1], kernel_size=[2])) as arguments:
        assert aclnn.c.aclrtCtxSetSysParamOpt(0, 1) == 0
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.c.aclDestroyAclOpExecutor(executor) == 0
    assert aclnn.c.aclrtMalloc(None, 8, 0) == INVALID
    lines = aclnn.trace()
    assert aclnn.trace() == []
    names = [line["call"] for line in lines]
    assert names[:3] == ["aclCreateTensor"] * 3
    assert names[-1] == "aclrtMalloc"
    by_name = {line["call"]: line for line in lines}
    assert by_name["aclrtMalloc"] == {
        "call": "aclrtMalloc", "thread": lines[0]["thread"], "size": 8, "policy": 0, "code": INVALID,
    }  # fmt: skip
    phase_1 = by_name[f"{POOL_2D}GetWorkspaceSize"]
    assert phase_1["deterministic"] == 1
    assert phase_1["executor"] == executor
    assert phase_1["self"] == arguments[1]
    assert {line["tensor"] for line in lines if line["call"] == "aclCreateTensor"} == {
        arguments[i] for i in (0, 1, 2, -1)
    }
    aclnn.c.aclnnHostTraceStop()
    malloc(aclnn)
    assert aclnn.trace() == []


def test_a_traced_call_is_known_by_its_tensors_and_lists(aclnn: Aclnn) -> None:
    """A tensor that is a part of its storage, lists of every length, and the attributes."""
    values = np.zeros((2, 1, 4, 8), np.float32)
    x = values[:, :, 1:, ::2]
    call = Backward.of(
        np.zeros((2, 1, 2, 2), np.float32), x, np.zeros((2, 1, 2, 2), np.int32), np.zeros_like(x),
        kernel_size=[2, 3], stride=[], padding=[1], dilation=[1, 1], ceil_mode=True,
    )  # fmt: skip
    aclnn.c.aclnnHostTraceStart()
    with aclnn.arguments(POOL_2D, call) as arguments:
        code, _ = aclnn.phase_1(POOL_2D, arguments)
    lines = aclnn.trace()
    tensors = {line["tensor"]: line for line in lines if line["call"] == "aclCreateTensor"}
    lists = {line["array"]: line["value"] for line in lines if line["call"] == "aclCreateIntArray"}
    phase_1 = next(line for line in lines if line["call"] == f"{POOL_2D}GetWorkspaceSize")
    tensor = tensors[phase_1["self"]]
    assert (tensor["viewDims"], tensor["stride"], tensor["offset"]) == ([2, 1, 3, 4], [32, 32, 8, 2], 8)
    assert (tensor["storageDims"], tensor["format"], tensor["dataType"]) == ([64], 2, 0)
    assert tensors[phase_1["indices"]]["dataType"] == 3
    assert [lists[phase_1[name]] for name in ("kernelSize", "stride", "padding", "dilation")] == [
        [2, 3], [], [1], [1, 1],
    ]  # fmt: skip
    assert (phase_1["ceilMode"], phase_1["outputSize"], phase_1["code"]) == (1, 0, code)


@pytest.mark.parametrize(("strides", "traced"), [(None, None), ((6, 2, 1), [6, 2, 1])])
def test_strides_that_are_left_out_are_null_in_the_trace(aclnn: Aclnn, strides: Any, traced: Any) -> None:
    dims = (ctypes.c_int64 * 3)(2, 3, 2)
    aclnn.c.aclnnHostTraceStart()
    tensor = aclnn.c.aclCreateTensor(dims, 3, 0, strides and (ctypes.c_int64 * 3)(*strides), 0, 2, dims, 3, None)
    assert aclnn.c.aclCreateTensor(None, 3, 0, None, 0, 2, dims, 3, None) is None
    created, failed = aclnn.trace()
    assert (created["viewDims"], created["stride"], created["storageDims"]) == ([2, 3, 2], traced, [2, 3, 2])
    assert "viewDims" not in failed
    assert aclnn.c.aclDestroyTensor(tensor) == 0


def test_trace_has_threads_of_their_own() -> None:
    code = """
import threading
from tests.runtime.aclnn_ctypes import library
aclnn = library()
aclnn.c.aclnnHostTraceStart()
for _ in range(2):
    thread = threading.Thread(target=aclnn.message)
    thread.start()
    thread.join()
answer([[line["thread"], line["call"]] for line in aclnn.trace()])
"""
    assert run_python(code) == [[1, "aclGetRecentErrMsg"], [2, "aclGetRecentErrMsg"]]


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


NOTED = [
    (
        "gradOutput is empty", ADAPTIVE_2D,
        Backward.of(zeros(0, 1, 1), zeros(1, 1, 1), zeros(0, 1, 1, dtype=np.int32), zeros(1, 1, 1)), 0),
    (
        "refuse indices", POOL_2D,
        Backward.of(zeros(1, 1, 1), zeros(1, 1, 1), zeros(1, 1, 2, dtype=np.int32), zeros(1, 1, 1)), 561103),
    (
        "is copied", POOL_2D,
        Backward.of(zeros(1, 1, 1), zeros(1, 1, 1), zeros(1, 1, 1, dtype=np.int32), zeros(1, 1, 1)), 0),
    ("no dilation but 1", POOL_3D, Backward.of(*[zeros(1, 1, 1, 1)] * 2, CALL[2], zeros(1, 1, 1, 1), dilation=[2]), 0),
    (
        "561103", ADAPTIVE_FORWARD_2D,
        Forward.of(zeros(1, 2, 2), zeros(1, 2, 2), zeros(1, 2, 2, dtype=np.int64), output_size=[1, 1]), 561103),
]  # fmt: skip


@pytest.mark.parametrize(("note", "api", "call", "code"), NOTED, ids=[note for note, *_ in NOTED])
def test_notes_where_code_and_documents_differ(note: str, api: str, call: Call, code: int) -> None:
    with strict_device() as device:
        device.c.aclnnHostTraceStart()
        with device.staged(call) as (on_device, _), device.aclnn.arguments(api, on_device) as arguments:
            actual, executor = device.aclnn.phase_1(api, arguments)
            if actual == 0:
                actual = device.execute(api, executor or 0, None, 0)
                device.check(device.c.aclrtSynchronizeStream(None))
        notes = [line for line in device.aclnn.trace() if "note" in line]
        device.c.aclnnHostTraceStop()
    assert actual == code
    assert [note in line["note"] for line in notes] == [True]
    assert notes[0]["function"].startswith(api)


def test_queued_work_in_the_trace() -> None:
    with current_device(strict=True) as aclnn:
        address = ctypes.c_void_p()
        aclnn.c.aclrtMalloc(ctypes.byref(address), 8, 0)
        aclnn.c.aclnnHostTraceStart()
        aclnn.c.aclrtMemsetAsync(address, 8, 0, 8, None)
        aclnn.c.aclrtSynchronizeStream(None)
        lines = aclnn.trace()
        aclnn.c.aclnnHostTraceStop()
        aclnn.c.aclrtFree(address)
    stream = lines[1].pop("stream")
    assert stream > 0
    assert [line.get("call") for line in lines] == ["aclrtMemsetAsync", None, "aclrtSynchronizeStream"]
    assert lines[1] == {"run": "aclrtMemsetAsync", "code": 0}


_PROCESS = """
import ctypes
from tests.runtime.aclnn_ctypes import library
aclnn = library()
codes = [aclnn.c.aclInit(None), aclnn.message(), aclnn.c.aclrtSetDevice(0)]
address, array = ctypes.c_void_p(), (ctypes.c_int64 * 1)(1)
codes += [aclnn.c.aclrtMalloc(ctypes.byref(address), 8, 0) for _ in range(2)]
codes += [aclnn.c.aclCreateIntArray(array, 1)]
answer(codes)
"""


@pytest.mark.parametrize("strict", ["0", "1"])
def test_environment(tmp_path: Path, strict: str) -> None:
    trace = tmp_path / "trace"
    settings = {
        "ACLNN_HOST_STRICT": strict,
        "ACLNN_HOST_TRACE": str(trace),
        "ACLNN_HOST_FAIL": "aclrtMalloc:2:207001,aclCreateIntArray:0:1",
    }
    assert run_python(_PROCESS, **settings) == [0, None, 0, 0, NO_MEMORY, None]
    lines: list[dict[str, Any]] = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(line["call"], line["code"]) for line in lines[:-1]] == [
        ("aclInit", 0), ("aclGetRecentErrMsg", 0), ("aclrtSetDevice", 0),
        ("aclrtMalloc", 0), ("aclrtMalloc", NO_MEMORY), ("aclCreateIntArray", 1),
    ]  # fmt: skip
    assert lines[-1]["exit"] == {
        "tensor": 0, "int_array": 0, "executor": 0, "stream": 0, "event": 0, "device_memory": 1, "pinned_memory": 0,
    }  # fmt: skip
    assert lines[-1]["violations"] == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ACLNN_HOST_FAIL", "aclrtMalloc", '"aclrtMalloc" is no function:nth:code'),
        ("ACLNN_HOST_FAIL", "aclrtMalloc:1:1,aclrtMalloc:x:1", '"aclrtMalloc:x:1" is no function:nth:code'),
        ("ACLNN_HOST_FAIL", "aclrtMalloc:1:1:1", "is no function:nth:code"),
        ("ACLNN_HOST_FAIL", "aclrtNothing:1:1", 'there is no function "aclrtNothing"'),
        ("ACLNN_HOST_TRACE", "/nowhere/trace", 'cannot open "/nowhere/trace"'),
        ("ACLNN_HOST_STRICT", "yes", 'ACLNN_HOST_STRICT is "yes"'),
    ],
)
def test_environment_that_cannot_be_followed(name: str, value: str, message: str) -> None:
    code, text, *_ = run_python(_PROCESS, **{name: value})
    assert code == INVALID
    assert message in text


def test_mode_is_read_anew_by_every_initialization() -> None:
    aclnn, mode = library("mode"), ctypes.c_int(-1)
    seen = []
    for strict in ("1", None, "0", "1", ""):
        with environment(ACLNN_HOST_STRICT=strict):
            assert aclnn.c.aclInit(None) == aclnn.c.aclrtGetRunMode(ctypes.byref(mode)) == aclnn.c.aclFinalize() == 0
        seen.append(mode.value)
    assert seen == [1, 0, 0, 1, 0]
