# SPDX-License-Identifier: Apache-2.0

"""A failure in device memory is an error of the Run, with its cause; the next Run is right, and nothing leaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import SessionError, create_session, register
from tests.harness.sessions.device_process import on_device
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import (
    ALONE,
    CHAIN,
    DEEP,
    alone_feeds,
    assert_right,
    expected,
    image,
    model_of,
    open_session,
)

FAULT = 507899  # ACL_ERROR_RT_DRV_INTERNAL_ERROR, which no function gives by itself
KINDS = ("tensor", "int_array", "executor", "stream", "event", "device_memory", "pinned_memory")


def message_of(run: Any) -> str:
    try:
        run()
    except Exception as error:
        return str(error)
    return ""


def check_indices_outside_their_plane() -> None:
    session = open_session(ALONE)
    big = 3 << 20  # of several chunks
    for shape, position in [((2, 3, 6, 6), 46), ((1, 1, 2 * big // 1024, 2048), big // 2 - 1)]:
        feeds = alone_feeds(*shape)
        plane = shape[2] * shape[3]
        good = feeds["argmax"].flat[position]
        for bad in (-1, plane, 2**31 - 1):
            feeds["argmax"].flat[position] = bad
            message = message_of(lambda feeds=feeds: session.run(None, feeds))
            wanted = f"argmax holds {bad} at flat position {position}, outside the plane of {plane} elements"
            assert f"MaxPool3DGradWithArgmax_0': {wanted}" in message
        feeds["argmax"].flat[position] = good
        assert_right(session, ALONE, feeds)


def check_trusted_indices() -> None:
    """Indices of a pool of the session are not read back, and none are with check_indices=0; the device is strict."""
    library = HostLibrary()
    session, trusting = open_session(CHAIN), open_session(ALONE, check_indices="0")
    calls = library.trace(lambda: session.run(["dx"], {"x": image(2, 3, 8, 6)}))
    # To the host go y, which the CPU negates, and dx.
    assert sum(call.get("call") == "aclrtMemcpyAsync" and call.get("kind") == 2 for call in calls) == 2
    feeds = alone_feeds(2, 3, 6, 6)
    bad = {**feeds, "argmax": feeds["argmax"] + 36}
    assert "507015" in message_of(lambda: trusting.run(None, bad))
    assert_right(trusting, ALONE, feeds)
    library.heal()


def check_every_call_may_fail() -> None:
    """Each call of a Run in turn fails once."""
    library = HostLibrary()
    feeds = alone_feeds(2, 3, 6, 6)
    wanted = expected(ALONE, feeds)[0]
    calls = library.trace(lambda: open_session(ALONE).run(None, feeds))
    functions = {call["call"] for call in calls if "call" in call} - UNCHECKED
    failed = set()
    for function in sorted(functions):
        for nth in (1, 2, 3):
            session = open_session(ALONE)
            library.fail(function, nth, FAULT)
            message = message_of(lambda session=session: session.run(None, feeds))
            library.heal()
            if message:
                failed.add(function)
            assert not message or (f"{function} failed with {FAULT}" in message) or function in SILENT, message
            assert_same_bits(session.run(None, feeds)[0], wanted)
    # The others are called when libraries and sessions open, and when objects go.
    assert functions - failed <= OPENING | {
        function for function in functions if "Destroy" in function or "Free" in function
    }
    library.fail("aclrtCreateStream", 1, FAULT)
    assert f"aclrtCreateStream failed with {FAULT}" in message_of(lambda: open_session(ALONE))
    assert_right(open_session(ALONE), ALONE, feeds)


UNCHECKED = {
    # Refusals that another way is taken for.
    "aclSetAclOpExecutorRepeatable",
    # Queries.
    "aclrtGetDevice",
    "aclGetRecentErrMsg",
}
OPENING = {
    "aclInit",
    "aclrtCreateStream",
    "aclrtGetDeviceCount",
    "aclrtGetRunMode",
    "aclrtGetSocName",
    "aclrtSetDevice",
    "aclrtCtxSetSysParamOpt",
    "aclrtGetDeviceInfo",
}
SILENT = {
    # The allocator's interface has no status: onnxruntime only knows that there is no memory, the log knows why.
    "aclrtMalloc",
    # Null has no code.
    "aclCreateTensor",
    "aclCreateIntArray",
}


def check_nothing_is_left() -> None:
    library = HostLibrary()
    register()
    warm = device_objects(library)
    for _ in range(2):
        session = open_session(CHAIN)
        for size in (4, 12, 8, 40):
            assert_right(session, CHAIN, {"x": image(1, 2, size, size)})
        library.fail("aclrtSynchronizeEvent", 1, FAULT)
        assert message_of(lambda session=session: session.run(None, {"x": image(1, 2, 4, 4)}))
        del session
    assert device_objects(library) == warm
    library.heal()


def device_objects(library: HostLibrary) -> dict[str, int]:
    return {kind: library.live(kind) for kind in KINDS}


def check_memory_is_bounded() -> None:
    """A session holds at most twice the memory of its largest Run, and allocates no block twice."""
    library = HostLibrary()
    session = open_session(CHAIN)
    sizes = [*range(8, 200, 8), *range(200, 8, -8)]
    live = []
    for size in sizes:
        session.run(None, {"x": np.zeros((1, 1, size, size), np.float32)})
        live.append(library.live("device_memory"))
    assert max(live) < 16
    calls = library.trace(lambda: session.run(None, {"x": np.zeros((1, 1, 192, 192), np.float32)}))
    calls = library.trace(lambda: session.run(None, {"x": np.zeros((1, 1, 192, 192), np.float32)}))
    assert not [call for call in calls if call.get("call") in ("aclrtMalloc", "aclrtMallocHost", "aclrtFree")]


def check_device_out_of_memory() -> None:
    """Idle memory is freed first."""
    library = HostLibrary()
    session = open_session(CHAIN)
    session.run(None, {"x": image(1, 1, 64, 64)})
    library.fail("aclrtMalloc", 1, 207001)
    assert_right(session, CHAIN, {"x": image(1, 1, 512, 512)})
    deep = {"x": image(1, 1, 64, 64)}
    for nth in range(2, 9):  # some of what is idle is still to be read
        session = open_session(DEEP)
        library.fail("aclrtMalloc", nth, 207001)
        message_of(lambda session=session: session.run(None, deep))
        library.heal()
        assert_right(session, DEEP, deep)
    session = open_session(CHAIN)
    library.fail("aclrtMalloc", 0, 207001)
    assert message_of(lambda: session.run(None, {"x": image(1, 1, 1024, 1024)}))
    array = np.zeros(1 << 20, np.float32)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), np.float32, "npu", 0, 0x19E5)
    source = ort.OrtValue.ortvalue_from_numpy(array)
    message = message_of(lambda: ort.copy_tensors([source], [value]))
    assert "there was no memory for a tensor of 4194304 bytes" in message
    library.heal()
    assert_right(session, CHAIN, {"x": image(1, 1, 512, 512)})


def check_memory_option() -> None:
    library = HostLibrary()
    feeds = {"x": image(2, 3, 8, 6)}
    staged = open_session(CHAIN, memory="host")
    assert_right(staged, CHAIN, feeds)
    bad = alone_feeds(1, 1, 4, 4)
    bad["argmax"][0, 0, 1, 1] = 16
    assert "at flat position 3, outside the plane of 16" in message_of(
        lambda: open_session(ALONE, memory="host").run(None, bad)
    )
    assert_right(open_session(CHAIN, memory="device"), CHAIN, feeds)
    for options in ({"memory": "gpu"}, {"check_indices": "2"}):
        ((key, value),) = options.items()
        message = message_of(lambda options=options: create_session(model_of(CHAIN), backend="host", **options))
        assert f"provider option {key} is '{value}'; it takes" in message
    library.heal()


@pytest.mark.parametrize(
    "check",
    [
        check_indices_outside_their_plane,
        check_trusted_indices,
        check_every_call_may_fail,
        check_nothing_is_left,
        check_memory_is_bounded,
        check_device_out_of_memory,
        check_memory_option,
    ],
)
def test_in_device_memory(check: Any) -> None:
    on_device(check)


def test_host_library_as_it_is_has_no_device_memory() -> None:
    with pytest.raises(SessionError, match="memory is 'device', and this backend works on host memory"):
        create_session(model_of(CHAIN), backend="host", memory="device")
