# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: the threads that kernels share, and threads that the caller provides."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.sessions.ep_process import run_python
from tests.oracles import assert_same_bits
from tests.runtime.aclnn_ctypes import POOL_2D, Aclnn, Backward, current_device

INVALID = 100000


@pytest.fixture
def aclnn() -> Iterator[Aclnn]:
    with current_device() as library:
        yield library
        assert library.c.aclnnHostSetThreads(0) == 0


def check_gradient(aclnn: Aclnn, seed: int) -> None:
    """A gradient large enough for all threads: each element of dy goes to the first element of its window."""
    grad = np.random.default_rng(seed).standard_normal((4, 8, 64, 64), np.float32)
    places = np.arange(128 * 128, dtype=np.int32).reshape(128, 128)[::2, ::2]
    indices = np.ascontiguousarray(np.broadcast_to(places, grad.shape))
    dx = np.full((4, 8, 128, 128), 7, np.float32)
    assert aclnn.run(POOL_2D, Backward.of(grad, dx.copy(), indices, dx, kernel_size=[2])) == 0, aclnn.message()
    expected = np.zeros_like(dx)
    expected[:, :, ::2, ::2] = grad
    assert_same_bits(dx, expected)


@pytest.mark.parametrize("count", [1, 2, 7, 0])
def test_limits(aclnn: Aclnn, count: int) -> None:
    assert aclnn.c.aclnnHostSetThreads(count) == 0
    check_gradient(aclnn, count)


def test_limit_below_zero(aclnn: Aclnn) -> None:
    assert aclnn.c.aclnnHostSetThreads(-1) == INVALID
    assert "-1 threads" in (aclnn.message() or "")


def test_calls_at_the_same_time(aclnn: Aclnn) -> None:
    """One call uses the threads, the others run on their own thread."""
    assert aclnn.c.aclnnHostSetThreads(3) == 0

    def work(seed: int) -> None:
        assert aclnn.c.aclrtSetDevice(0) == 0
        for number in range(4):
            check_gradient(aclnn, seed + number)

    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(work, seed) for seed in range(4)]:
            future.result()


_RUN = CFUNCTYPE(None, c_void_p, c_size_t)
_PARALLEL_FOR = CFUNCTYPE(None, c_void_p, _RUN, c_size_t, c_void_p)


@contextmanager
def shared_out(aclnn: Aclnn) -> Iterator[list[int]]:
    """Run this thread's kernels on three threads of this test, the last range first; yields the numbers of ranges."""
    counts: list[int] = []

    def parallel_for(_context: object, run: Any, count: int, data: object) -> None:
        counts.append(count)
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda index: run(data, index), reversed(range(count))))

    kept = _PARALLEL_FOR(parallel_for)
    aclnn.c.aclnnHostSetParallelFor(kept, None)
    try:
        yield counts
    finally:
        aclnn.c.aclnnHostSetParallelFor(None, None)


def test_the_caller_shares_the_work_out(aclnn: Aclnn) -> None:
    with shared_out(aclnn) as counts:
        check_gradient(aclnn, 0)
        assert counts
        assert min(counts) > 1
        calls = len(counts)
        with ThreadPoolExecutor(1) as other:
            other.submit(aclnn.c.aclrtSetDevice, 0).result()
            other.submit(check_gradient, aclnn, 1).result()
        assert len(counts) == calls, "another thread has not asked for it"
    check_gradient(aclnn, 2)
    assert len(counts) == calls


def test_a_bad_index_is_found_by_whichever_thread(aclnn: Aclnn) -> None:
    grad, dx = np.ones((4, 8, 64, 64), np.float32), np.zeros((4, 8, 128, 128), np.float32)
    indices = np.zeros(grad.shape, np.int32)
    indices[2, 3, 4, 5] = 128 * 128
    with shared_out(aclnn) as counts:
        assert aclnn.run(POOL_2D, Backward.of(grad, dx.copy(), indices, dx, kernel_size=[2])) != 0
    assert counts
    assert "[2, 3, 0, 4, 5]" in (aclnn.message() or "")


_THREADS = """
import os
from pathlib import Path
from tests.runtime.aclnn_ctypes import current_device
from tests.runtime.test_host_threads import check_gradient

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

with current_device() as aclnn:
    assert aclnn.c.aclnnHostSetThreads(3) == 0
    before = threads()
    check_gradient(aclnn, 0)
    first = threads() - before
    check_gradient(aclnn, 1)
    again = threads() - before
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_threads_stay_for_the_next_call() -> None:
    assert run_python(_THREADS + "answer([first, again])") == [2, 2]


_FORK = (
    _THREADS
    + """
    child = os.fork()
    if child == 0:
        check_gradient(aclnn, 2)
        os._exit(threads())
    status = os.waitpid(child, 0)[1]
    check_gradient(aclnn, 3)
answer(os.waitstatus_to_exitcode(status))
"""
)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_a_forked_child_has_a_team_of_its_own() -> None:
    assert run_python(_FORK) == 3
