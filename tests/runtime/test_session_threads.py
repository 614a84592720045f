# SPDX-License-Identifier: Apache-2.0

"""Sessions made and run by several threads at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from poolgrad_lowering.runtime import create_session
from tests.harness.sessions.ep_process import run_python
from tests.oracles import assert_same_bits
from tests.runtime.ep_models import Case, make_feeds, make_model, window

THREADS = 8
RUNS = 40
CASES = [
    Case("MaxPool3DGradWithArgmax", (2, 3, 5, 6, 7), window([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1])),
    Case("MaxPool3DGradWithArgmax", (1, 2, 9, 8, 3), window([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1])),
]
MODEL = make_model(CASES[0].op, CASES[0].attributes(), x=[None] * 5, grad=[None] * 5)


def test_one_session_run_by_many_threads() -> None:
    session = create_session(MODEL, backend="host")

    def run(number: int) -> None:
        feeds, expected = make_feeds(CASES[number % 2], seed=number)
        for _ in range(RUNS):
            assert_same_bits(session.run(None, feeds)[0], expected)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def test_a_failing_run_does_not_disturb_the_others() -> None:
    session = create_session(MODEL, backend="host")

    def run(number: int) -> None:
        feeds, expected = make_feeds(CASES[0], seed=number)
        bad = {**feeds, "argmax": feeds["argmax"] - 1000}
        for _ in range(RUNS):
            if number % 2:
                with pytest.raises(Exception, match=r"'pool_grad'.*outside"):
                    session.run(None, bad)
            else:
                assert_same_bits(session.run(None, feeds)[0], expected)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def test_sessions_made_by_many_threads() -> None:
    def run(number: int) -> None:
        feeds, expected = make_feeds(CASES[number % 2], seed=number)
        assert_same_bits(create_session(MODEL, backend="host").run(None, feeds)[0], expected)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS * 4)))


def test_first_registration_by_many_threads() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from poolgrad_lowering.runtime import get_backend
with ThreadPoolExecutor(8) as pool:
    answer(list(pool.map(lambda _: get_backend(), range(8))))
"""
    assert run_python(code) == ["host"] * THREADS


_INTRA_OP = """
from pathlib import Path
import onnxruntime
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from tests.oracles import assert_same_bits
from poolgrad_lowering.runtime import create_session

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

case = Case("MaxPool3DGradWithArgmax", (4, 8, 1, 128, 128), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
feeds, expected = make_feeds(case, seed=0)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {count}
model = make_model(case.op, case.attributes(), x=[None] * 5, grad=[None] * 5)
session = create_session(model, backend="host", session_options=options)
before = threads()
assert_same_bits(session.run(None, feeds)[0], expected)
answer(threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_node_runs_on_the_threads_of_its_session(count: int) -> None:
    """The session has the threads already: the host library starts none of its own."""
    assert run_python(_INTRA_OP.format(count=count), ACLNN_HOST_THREADS="3") == 0
