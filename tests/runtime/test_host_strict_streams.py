# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict: when queued work runs, in which order, and the errors of callers that do not wait."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import POOL_2D, Backward
from tests.runtime.strict_device import ON_DEVICE, TO_DEVICE, TO_HOST, StrictDevice

PARAM_INVALID, NO_CONTEXT, OTHER_CONTEXT, STALE, FAULT = 107000, 107002, 107003, 107017, 507015
POISON = b"\xff" * 8


def read(device: StrictDevice, address: int) -> bytes:
    return device.download(address, np.empty(8, np.uint8)).tobytes()


def fill(device: StrictDevice, address: int, byte: bytes, stream: int | None) -> None:
    device.check(device.c.aclrtMemsetAsync(address, 8, byte[0], 8, stream))


def copy(device: StrictDevice, dst: int, src: int, kind: int, stream: int | None) -> None:
    device.check(device.c.aclrtMemcpyAsync(dst, 8, src, 8, kind, stream))


@pytest.mark.parametrize("default", [False, True])
def test_work_waits_until_somebody_waits_for_it(device: StrictDevice, default: bool) -> None:
    stream = None if default else device.stream()
    memory = device.upload(np.zeros(8, np.uint8))
    assert not device.pending(stream)
    fill(device, memory, b"a", stream)
    assert device.pending(stream)
    assert read(device, memory) == POISON  # too early
    assert device.aclnn.violations() == ["race"]
    assert device.pending(stream)  # asking does nothing
    device.check(device.c.aclrtSynchronizeStream(stream))
    assert not device.pending(stream)
    assert read(device, memory) == b"a" * 8
    device.free(memory)
    if stream is not None:
        device.destroy(streams=(stream,))


def test_order_in_a_stream(device: StrictDevice) -> None:
    stream, a, b = device.stream(), device.malloc(8), device.malloc(8)
    fill(device, a, b"a", stream)
    copy(device, b, a, ON_DEVICE, stream)
    fill(device, a, b"c", stream)
    device.check(device.c.aclrtSynchronizeStream(stream))
    assert (read(device, a), read(device, b)) == (b"c" * 8, b"a" * 8)
    device.free(a, b)
    device.destroy(streams=(stream,))


def test_destroying_a_stream_waits_for_it(device: StrictDevice) -> None:
    stream, memory = device.stream(), device.malloc(8)
    fill(device, memory, b"a", stream)
    device.destroy(streams=(stream,))
    assert read(device, memory) == b"a" * 8
    device.free(memory)


def test_pageable_memory_is_read_at_once_and_pinned_memory_when_the_copy_runs(device: StrictDevice) -> None:
    stream, a, b = device.stream(), device.malloc(8), device.malloc(8)
    pageable, pinned = ctypes.create_string_buffer(b"before..", 8), device.malloc_host(8)
    ctypes.memmove(pinned, b"before..", 8)
    copy(device, a, ctypes.addressof(pageable), TO_DEVICE, stream)
    copy(device, b, pinned, TO_DEVICE, stream)
    pageable.raw = b"too late"
    ctypes.memmove(pinned, b"too soon", 8)
    device.check(device.c.aclrtSynchronizeStream(stream))
    assert (read(device, a), read(device, b)) == (b"before..", b"too soon")
    device.free(a, b)
    device.check(device.c.aclrtFreeHost(pinned))
    device.destroy(streams=(stream,))


def test_pageable_memory_is_free_once_it_was_read(device: StrictDevice) -> None:
    first, second, a, b = device.stream(), device.stream(), device.malloc(8), device.malloc(8)
    pageable = ctypes.create_string_buffer(b"for a...", 8)
    copy(device, a, ctypes.addressof(pageable), TO_DEVICE, first)
    fill(device, b, b"b", second)
    copy(device, ctypes.addressof(pageable), b, TO_HOST, second)
    device.check(device.c.aclrtSynchronizeStream(first))
    assert (read(device, a), pageable.raw) == (b"for a...", b"b" * 8)
    assert device.aclnn.violations() == []
    device.free(a, b)
    device.destroy(streams=(first, second))


def test_pageable_memory_is_written_at_once_and_pinned_memory_when_the_copy_runs(device: StrictDevice) -> None:
    stream, memory = device.stream(), device.malloc(8)
    pageable, pinned = ctypes.create_string_buffer(8), device.malloc_host(8)
    fill(device, memory, b"a", stream)
    copy(device, pinned, memory, TO_HOST, stream)
    assert ctypes.string_at(pinned, 8) == POISON
    assert device.pending(stream)
    copy(device, ctypes.addressof(pageable), memory, TO_HOST, stream)
    assert not device.pending(stream)
    assert pageable.raw == ctypes.string_at(pinned, 8) == b"a" * 8
    device.free(memory)
    device.check(device.c.aclrtFreeHost(pinned))
    device.destroy(streams=(stream,))


def test_an_event_orders_two_streams(device: StrictDevice) -> None:
    first, second, event = device.stream(), device.stream(), device.event()
    memory = device.malloc(8)
    fill(device, memory, b"a", first)
    device.check(device.c.aclrtRecordEvent(event, first))
    fill(device, memory + 0, b"b", first)  # after the event
    device.check(device.c.aclrtStreamWaitEvent(second, event))
    other = device.malloc(8)
    copy(device, other, memory, ON_DEVICE, second)
    assert device.aclnn.violations() == ["race"]  # with what comes after the event
    device.check(device.c.aclrtSynchronizeStream(second))
    assert read(device, other) == b"a" * 8  # the first stream went as far as the event, and no further
    assert device.pending(first)
    device.check(device.c.aclrtSynchronizeStream(first))
    assert read(device, memory) == b"b" * 8
    device.free(memory, other)
    device.destroy(streams=(first, second), events=(event,))
    assert device.aclnn.violations() == []


def test_order_through_a_third_stream(device: StrictDevice) -> None:
    streams = [device.stream() for _ in range(3)]
    events = [device.event() for _ in range(2)]
    memory, aside = device.malloc(8), device.malloc(8)
    fill(device, memory, b"a", streams[0])
    for stream, following, event in zip(streams, streams[1:], events, strict=False):
        device.check(device.c.aclrtRecordEvent(event, stream))
        device.check(device.c.aclrtStreamWaitEvent(following, event))
        fill(device, aside, b"x", following)
    fill(device, memory, b"b", streams[2])
    device.check(device.c.aclrtSynchronizeStream(streams[2]))
    assert not any(device.pending(stream) for stream in streams)
    assert read(device, memory) == b"b" * 8
    assert device.aclnn.violations() == []
    device.free(memory, aside)
    device.destroy(streams=tuple(streams), events=tuple(events))


def test_streams_that_wait_for_each_other_in_turn(device: StrictDevice) -> None:
    streams, event, memory = (device.stream(), device.stream()), device.event(), device.malloc(8)
    for turn in range(2000):
        fill(device, memory, bytes([turn % 256]), streams[turn % 2])
        device.check(device.c.aclrtRecordEvent(event, streams[turn % 2]))
        device.check(device.c.aclrtStreamWaitEvent(streams[(turn + 1) % 2], event))
    device.check(device.c.aclrtSynchronizeStream(streams[1]))
    assert read(device, memory) == bytes([1999 % 256]) * 8
    assert device.aclnn.violations() == []
    device.free(memory)
    device.destroy(streams=streams, events=(event,))


def test_events_and_the_host(device: StrictDevice) -> None:
    stream, event, memory = device.stream(), device.event(), device.malloc(8)
    status = ctypes.c_int(-1)

    def complete() -> bool:
        device.check(device.c.aclrtQueryEventStatus(event, ctypes.byref(status)))
        return status.value == 1

    assert not complete()
    fill(device, memory, b"a", stream)
    device.check(device.c.aclrtRecordEvent(event, stream))
    fill(device, memory, b"b", stream)
    assert not complete()
    device.check(device.c.aclrtSynchronizeEvent(event))
    assert complete()
    assert device.pending(stream)
    device.check(device.c.aclrtRecordEvent(event, stream))
    assert not complete()
    device.destroy(streams=(stream,))
    assert complete()
    device.free(memory)
    device.destroy(events=(event,))


def test_an_event_that_nothing_recorded(device: StrictDevice) -> None:
    stream, event = device.stream(), device.event()
    assert device.c.aclrtStreamWaitEvent(stream, event) == 0
    assert device.c.aclrtSynchronizeEvent(event) == PARAM_INVALID
    assert device.aclnn.violations() == ["event-not-recorded"] * 2
    device.destroy(streams=(stream,), events=(event,))


@pytest.mark.parametrize("writer", [0, 1])
def test_a_race_between_streams(device: StrictDevice, writer: int) -> None:
    streams, memory, other = (device.stream(), device.stream()), device.malloc(16), device.malloc(16)
    for stream, writes in zip(streams, (writer == 0, writer == 1), strict=True):
        if writes:
            fill(device, memory, b"a", stream)
        else:
            copy(device, other, memory + 4, ON_DEVICE, stream)
    assert device.aclnn.violations() == ["race"]
    for stream in streams:
        device.check(device.c.aclrtSynchronizeStream(stream))
    copy(device, other, memory, ON_DEVICE, streams[0])
    copy(device, other + 8, memory, ON_DEVICE, streams[1])  # both only read
    assert device.aclnn.violations() == []
    device.destroy(streams=streams)
    device.free(memory, other)


def test_freeing_what_queued_work_uses(device: StrictDevice) -> None:
    stream, memory, pinned = device.stream(), device.malloc(16), device.malloc_host(8)
    copy(device, pinned, memory + 8, TO_HOST, stream)
    assert device.c.aclrtFree(memory) == device.c.aclrtFreeHost(pinned) == 0
    assert device.c.aclrtSynchronizeStream(stream) == 507899
    assert device.aclnn.violations() == ["memory-in-use", "memory-in-use", "bad-address"]
    device.destroy(streams=(stream,))


def fail(device: StrictDevice, stream: int) -> None:
    """Queue a gradient with an index outside of its plane."""
    grad, indices = np.ones((1, 1, 1, 1), np.float32), np.full((1, 1, 1, 1), 9, np.int32)
    call = Backward.of(grad, np.zeros((1, 1, 2, 2), np.float32), indices, np.zeros((1, 1, 2, 2), np.float32))
    with device.staged(call) as (on_device, _), device.aclnn.arguments(POOL_2D, on_device) as arguments:
        arguments[3] = device.c.aclCreateIntArray((ctypes.c_int64 * 1)(2), 1)
        executor, size = device.phase_1(POOL_2D, arguments)
        device.check(device.execute(POOL_2D, executor, None, size, stream))
        device.check(device.c.aclDestroyIntArray(arguments[3]))
        assert device.c.aclrtSynchronizeStream(stream) == FAULT
        assert "indices is 9" in (device.aclnn.message() or "")


def test_a_failed_task_breaks_its_stream(device: StrictDevice) -> None:
    stream, other, memory = device.stream(), device.stream(), device.malloc(8)
    event, status = device.event(), ctypes.c_int()
    fail(device, stream)
    c = device.c
    assert c.aclrtSynchronizeStream(stream) == c.aclrtMemsetAsync(memory, 8, 1, 8, stream) == FAULT
    assert c.aclrtStreamQuery(stream, ctypes.byref(status)) == c.aclrtRecordEvent(event, stream) == FAULT
    assert "in work that aclnnMaxPool2dWithIndicesBackward queued: indices is 9" in (device.aclnn.message() or "")
    fill(device, memory, b"a", other)  # which goes on
    device.destroy(streams=(other, stream))
    assert read(device, memory) == b"a" * 8
    device.free(memory)
    device.destroy(events=(event,))


def test_what_a_broken_stream_still_had_to_do_is_dropped(device: StrictDevice) -> None:
    stream, memory = device.stream(), device.malloc(8)
    before, after = device.event(), device.event()
    gone = device.malloc(8)
    device.check(device.c.aclrtRecordEvent(before, stream))
    copy(device, memory, gone, ON_DEVICE, stream)
    device.free(gone)  # so that the copy fails
    fill(device, memory, b"a", stream)
    device.check(device.c.aclrtRecordEvent(after, stream))
    assert device.c.aclrtSynchronizeEvent(after) == 507899
    assert device.c.aclrtSynchronizeEvent(before) == 0
    status = ctypes.c_int(-1)
    device.check(device.c.aclrtQueryEventStatus(after, ctypes.byref(status)))
    assert status.value == 0
    assert device.aclnn.violations() == ["memory-in-use", "bad-address"]
    assert read(device, memory) == POISON
    device.free(memory)
    device.destroy(streams=(stream,), events=(before, after))


def test_stale_handles(device: StrictDevice) -> None:
    stream, event, status = device.stream(), device.event(), ctypes.c_int()
    device.destroy(streams=(stream,), events=(event,))
    c = device.c
    for handle in (stream, ctypes.addressof(status)):
        assert c.aclrtSynchronizeStream(handle) == c.aclrtStreamQuery(handle, ctypes.byref(status)) == STALE
        assert c.aclrtDestroyStream(handle) == STALE
    for handle in (event, ctypes.addressof(status)):
        assert c.aclrtRecordEvent(handle, None) == c.aclrtStreamWaitEvent(None, handle) == STALE
        assert c.aclrtSynchronizeEvent(handle) == c.aclrtQueryEventStatus(handle, ctypes.byref(status)) == STALE
        assert c.aclrtDestroyEvent(handle) == STALE
    assert device.aclnn.violations() == ["stale-handle"] * 16


def test_handles_of_a_context_that_ended(device: StrictDevice) -> None:
    stream, event, memory = device.stream(), device.event(), device.malloc(8)
    fill(device, memory, b"a", stream)
    c = device.c
    device.check(c.aclrtResetDevice(0))
    assert device.aclnn.violations() == ["leak"] * 3
    assert device.aclnn.live() == 0
    assert c.aclrtSynchronizeStream(stream) == NO_CONTEXT
    device.check(c.aclrtSetDevice(0))
    assert c.aclrtSynchronizeStream(stream) == c.aclrtDestroyStream(stream) == OTHER_CONTEXT
    assert c.aclrtRecordEvent(event, None) == c.aclrtDestroyEvent(event) == OTHER_CONTEXT
    assert c.aclrtFree(memory) == 507899
    assert device.aclnn.violations() == ["bad-free"]


def test_a_thread_without_the_device(device: StrictDevice) -> None:
    stream, codes = device.stream(), []

    def other_thread() -> None:
        codes.append(device.c.aclrtSynchronizeStream(stream))
        codes.append(device.c.aclrtSetDevice(0))
        codes.append(device.c.aclrtSynchronizeStream(stream))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert codes == [NO_CONTEXT, 0, 0]
    device.destroy(streams=(stream,))


def test_many_threads_with_streams_of_their_own(device: StrictDevice) -> None:
    wrong: list[int] = []

    def one_thread(number: int) -> None:
        device.check(device.c.aclrtSetDevice(0))
        stream, a, b = device.stream(), device.malloc(8), device.malloc(8)
        for turn in range(50):
            byte = bytes([(number * 50 + turn) % 255])
            fill(device, a, byte, stream)
            copy(device, b, a, ON_DEVICE, stream)
            device.check(device.c.aclrtSynchronizeStream(stream))
            if read(device, b) != byte * 8:
                wrong.append(number)
        device.free(a, b)
        device.destroy(streams=(stream,))

    threads = [threading.Thread(target=one_thread, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert device.aclnn.violations() == []


def test_the_device_is_waited_for(device: StrictDevice) -> None:
    streams, memories = [device.stream(), device.stream()], [device.malloc(8), device.malloc(8)]
    for stream, memory in zip(streams, memories, strict=True):
        fill(device, memory, b"a", stream)
    device.check(device.c.aclrtSynchronizeDevice())
    for memory in memories:
        assert read(device, memory) == b"a" * 8  # no race, without an event
        device.free(memory)
    device.destroy(streams=tuple(streams))


def test_waiting_for_the_device_tells_of_a_broken_stream(device: StrictDevice) -> None:
    stream = device.stream()
    fail(device, stream)
    assert device.c.aclrtSynchronizeDevice() == FAULT
    device.destroy(streams=(stream,))
