# SPDX-License-Identifier: Apache-2.0

"""Concurrent sessions in device memory, each on its own stream, do not affect each other."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from tests.harness.sessions.device_process import on_device
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits
from tests.runtime.device_models import ALONE, BRANCH, CHAIN, alone_feeds, expected, image, open_session

THREADS = 6
MANY_THREADS = 16
RUNS = 25
FAULT = 507899  # ACL_ERROR_RT_DRV_INTERNAL_ERROR, which no function gives by itself


def in_threads(run: Callable[[int], None], threads: int = THREADS) -> None:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))


def check_threads_of_two_sessions() -> None:
    sessions = [open_session(CHAIN), open_session(CHAIN)]

    def run(number: int) -> None:
        feeds = {"x": image(1 + number % 3, 2, 8, 4 + 2 * number, seed=number)}
        wanted = expected(CHAIN, feeds)
        for turn in range(RUNS):
            for found, array in zip(sessions[(number + turn) % 2].run(None, feeds), wanted, strict=True):
                assert_same_bits(found, array)

    in_threads(run)


def check_threads_of_branches() -> None:
    session = open_session(BRANCH)

    def run(number: int) -> None:
        feeds = {"x": image(2, 2, 8, 6, seed=number), "first": np.array(number % 2 == 0)}
        wanted = expected(BRANCH, feeds)
        for _ in range(RUNS):
            for found, array in zip(session.run(None, feeds), wanted, strict=True):
                assert_same_bits(found, array)

    in_threads(run)


def check_values_on_device_in_threads() -> None:
    session = open_session(ALONE)

    def run(number: int) -> None:
        feeds = alone_feeds(2, 3, 8, 8, seed=number)
        (wanted,) = expected(ALONE, feeds)
        for _ in range(RUNS):
            values = {}
            for name, array in feeds.items():
                values[name] = on_npu(array)
            dx = on_npu(np.zeros_like(wanted))
            binding = session.io_binding()
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output("dx", dx)
            session.run_with_iobinding(binding)
            target = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(wanted))
            ort.copy_tensors([dx], [target])
            assert_same_bits(np.array(target.numpy()), wanted)

    in_threads(run)


def on_npu(array: Any) -> Any:
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "npu", 0, 0x19E5)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
    return value


def attempt(session: Any, feeds: dict[str, Any]) -> tuple[Any, str]:
    """Return the session's first result, or the message of its error."""
    try:
        return session.run(None, feeds)[0], ""
    except Exception as error:
        return None, str(error)


def check_a_device_error_ends_the_runs_it_met() -> None:
    """While one thread's indices put the session's stream in error, every Run of other threads is right or an error."""
    session = open_session(ALONE, check_indices="0")
    feeds = alone_feeds(1, 2, 6, 6)
    bad = {**feeds, "argmax": feeds["argmax"] + 36}
    (wanted,) = expected(ALONE, feeds)

    def run(number: int) -> None:
        for _ in range(RUNS):
            found, message = attempt(session, bad if number == 0 else feeds)
            if number == 0 or message:
                assert "507015" in message
                time.sleep(0.001)
            else:
                assert_same_bits(found, wanted)

    in_threads(run)
    (found,) = session.run(None, feeds)
    assert_same_bits(found, wanted)
    HostLibrary().heal()


@dataclasses.dataclass
class Attempt:
    """A Run: its begin and end times, and the message of its error."""

    began: float
    ended: float
    message: str


def attempts_of_many_threads(session: Any, feeds: dict[str, Any], first: dict[str, Any]) -> list[Attempt]:
    """Run the session in many threads and check each result; the first Run of one thread has feeds of its own."""
    (wanted,) = expected(ALONE, feeds)
    attempts: list[Attempt] = []
    start = threading.Barrier(MANY_THREADS)

    def run(number: int) -> None:
        start.wait()
        for turn in range(RUNS):
            began = time.monotonic()
            found, message = attempt(session, first if (number, turn) == (0, 0) else feeds)
            attempts.append(Attempt(began, time.monotonic(), message))
            if not message:
                assert_same_bits(found, wanted)

    in_threads(run, MANY_THREADS)
    return attempts


def assert_only_runs_that_had_begun_failed(attempts: list[Attempt], code: int) -> None:
    failed = [run for run in attempts if run.message]
    assert failed
    assert [run.message for run in failed if str(code) not in run.message] == []
    assert len(failed) <= MANY_THREADS
    seen = min(run.ended for run in failed)
    assert [run for run in failed if run.began > seen] == []


def check_a_failed_wait_ends_only_runs_that_had_begun() -> None:
    """One wait for a stream fails: that of the session or that of the copies."""
    library = HostLibrary()
    session = open_session(ALONE)
    feeds = alone_feeds(1, 2, 6, 6)
    for nth in (1, 2, 3, 40, 41, 42, 43):
        library.fail("aclrtSynchronizeStream", nth, FAULT)
        assert_only_runs_that_had_begun_failed(attempts_of_many_threads(session, feeds, feeds), FAULT)
        # The stream goes on with what its users take for lost.
        library.heal(tolerated="race")


def check_a_broken_stream_ends_only_runs_that_had_begun() -> None:
    session = open_session(ALONE, check_indices="0")
    feeds = alone_feeds(1, 2, 6, 6)
    bad = {**feeds, "argmax": feeds["argmax"] + 36}
    for _ in range(5):
        assert_only_runs_that_had_begun_failed(attempts_of_many_threads(session, feeds, bad), 507015)
    HostLibrary().heal()


def check_sessions_made_and_dropped_in_threads() -> None:
    library = HostLibrary()
    open_session(CHAIN)
    before = library.live("device_memory"), library.live("stream"), library.live("pinned_memory")

    def run(number: int) -> None:
        feeds = {"x": image(1, 2, 8, 4 + 2 * number, seed=number)}
        wanted = expected(CHAIN, feeds)
        for _ in range(3):
            for found, array in zip(open_session(CHAIN).run(None, feeds), wanted, strict=True):
                assert_same_bits(found, array)

    in_threads(run)
    assert (library.live("device_memory"), library.live("stream"), library.live("pinned_memory")) == before


@pytest.mark.parametrize(
    "check",
    [
        check_threads_of_two_sessions,
        check_threads_of_branches,
        check_values_on_device_in_threads,
        check_a_device_error_ends_the_runs_it_met,
        check_a_failed_wait_ends_only_runs_that_had_begun,
        check_a_broken_stream_ends_only_runs_that_had_begun,
        check_sessions_made_and_dropped_in_threads,
    ],
)
def test_in_device_memory(check: Callable[[], None]) -> None:
    on_device(check)
