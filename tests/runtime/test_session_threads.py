"""Sessions made and run by several threads at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from ep_models import Case, make_feeds, make_model, window
from ep_process import run_python
from oracles import assert_same_bits

from poolgrad_lowering.runtime import create_session

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
