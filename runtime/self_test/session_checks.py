# SPDX-License-Identifier: Apache-2.0

"""Checks of whole sessions on one backend: memory of tensors, changing sizes, threads, determinism, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from poolgrad_lowering.runtime.self_test import data
from poolgrad_lowering.runtime.self_test.cases import CASES, ELEMENT_TYPES
from poolgrad_lowering.runtime.self_test.models import chain_model, gradient_model
from poolgrad_lowering.runtime.self_test.reference import gradient, pool
from poolgrad_lowering.runtime.self_test.sessions import DifferentError, check_same, open_session, run

if TYPE_CHECKING:
    import onnxruntime

_CASE = next(case for case in CASES if case.pooling.title == "2-D overlapping")
_SMALL, _LARGE = _CASE.pooling.x_shape, (3, 4, 33, 21)
_FLOAT32 = ELEMENT_TYPES[0]
_THREADS, _RUNS = 4, 8


def check_memory(memory: str) -> Callable[[str], None]:
    """Return the check of a pool and its gradient with the provider option `memory`."""

    def check(backend: str) -> None:
        _check_chain(open_session(chain_model(_CASE), backend, memory=memory), _SMALL)

    return check


def check_sizes(backend: str) -> None:
    """Check two alternating sizes in one session, which caches an executor of aclnn for each."""
    session = open_session(chain_model(_CASE), backend)
    for x_shape in (_SMALL, _LARGE) * 3:
        _check_chain(session, x_shape)


def check_threads_of_one_session(backend: str) -> None:
    """Check concurrent Runs of one session."""
    session = open_session(chain_model(_CASE), backend)
    _in_threads([lambda: _check_runs(session)] * _THREADS)


def check_sessions_in_threads(backend: str) -> None:
    """Check sessions that are created, run and closed concurrently."""
    _in_threads([lambda: _check_runs(open_session(chain_model(_CASE), backend))] * _THREADS)


def check_determinism(backend: str) -> None:
    """Check that with `deterministic=1` rounded sums have the same bits in each Run and session."""
    x = data.ties(_LARGE)
    _, argmax = pool(x, _CASE.pooling.windows_of(_LARGE))
    feeds = {"x": x, "grad": data.spread(argmax.shape, _FLOAT32)}
    sessions = [open_session(chain_model(_CASE), backend, deterministic="1") for _ in range(2)]
    results = [run(session, feeds)[1] for session in sessions for _ in range(4)]
    for number, result in enumerate(results[1:], 2):
        check_same(f"dx of Run {number}", result, results[0])


def check_foreign_index(backend: str) -> None:
    """Check that an index outside of its plane is an error that names the cause, and that the next Run is correct."""
    session = open_session(gradient_model(_CASE.gradient, _CASE.pooling, _FLOAT32), backend)
    x = data.ties(_SMALL)
    _, argmax = pool(x, _CASE.pooling.windows())
    feeds = {"x": x, "grad": data.whole(argmax.shape), "argmax": np.full_like(argmax, 81)}
    try:
        run(session, feeds)
    except Exception as error:  # onnxruntime raises errors of many classes
        if "outside" not in str(error):  # the word is in the provider's message and in the host library's
            raise
    else:
        raise DifferentError("an argmax of 81 in a plane of 81 elements was no error")
    (dx,) = run(session, {**feeds, "argmax": argmax})
    expected = gradient(_SMALL, feeds["grad"], argmax, 0.0).y
    check_same("dx after the error", dx, expected.astype(np.float32))


SESSION_CHECKS: dict[str, Callable[[str], None]] = {
    "tensors where the device computes": check_memory("auto"),
    "tensors in host memory, calls staged": check_memory("host"),
    "two sizes in turn": check_sizes,
    "four threads, one session": check_threads_of_one_session,
    "four threads, a session each": check_sessions_in_threads,
    "deterministic sums": check_determinism,
    "an index outside of its plane": check_foreign_index,
}


def _check_runs(session: onnxruntime.InferenceSession) -> None:
    for _ in range(_RUNS):
        _check_chain(session, _SMALL)


def _check_chain(session: onnxruntime.InferenceSession, x_shape: Sequence[int]) -> None:
    x = data.ties(x_shape)
    expected_y, argmax = pool(x, _CASE.pooling.windows_of(x_shape))
    grad = data.whole(argmax.shape)
    y, dx = run(session, {"x": x, "grad": grad})
    check_same("y", y, expected_y)
    check_same("dx", dx, gradient(x_shape, grad, argmax, 0.0).y.astype(np.float32))


def _in_threads(tasks: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(tasks)) as threads:
        for done in [threads.submit(task) for task in tasks]:
            done.result()
