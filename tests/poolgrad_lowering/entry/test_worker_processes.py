# SPDX-License-Identifier: Apache-2.0

"""Work in several processes gives results in order and log records, even if a process dies."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal

import pytest

from poolgrad_lowering.entry.each_model import in_processes


def work(task: str) -> str:
    """End the process for a task that begins with "bad", like a model that crashes a library."""
    if task.startswith("bad"):
        os.kill(os.getpid(), signal.SIGKILL)
    logging.getLogger("poolgrad_lowering.some.module").info("working on %s", task)
    return f"done {task}"


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of forks, because a new interpreter could not import this module."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: fork)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_are_in_order(jobs: int) -> None:
    tasks = [str(number) for number in range(20)]
    assert list(in_processes(work, tasks, jobs, str.upper, set())) == [f"done {task}" for task in tasks]


def test_a_process_that_dies_takes_nobody_with_it() -> None:
    ended: set[str] = set()
    results = list(in_processes(work, ["a", "bad 1", "b", "bad 2", "c"], 2, lambda task: f"lost {task}", ended))
    assert results == ["done a", "lost bad 1", "done b", "lost bad 2", "done c"]
    assert ended <= {"a", "b", "c"}


@pytest.mark.parametrize(("level", "count"), [(logging.INFO, 3), (logging.WARNING, 0)])
def test_logs_come_home(caplog: pytest.LogCaptureFixture, level: int, count: int) -> None:
    with caplog.at_level(level, "poolgrad_lowering"):
        list(in_processes(work, ["a", "b", "c"], 2, str.upper, set()))
    assert caplog.messages == [f"working on {task}" for task in "abc"[:count]]


def test_an_error_of_the_work_is_its_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["1", "x", "3"], 2, int, set()))


def ignores_interrupts(_: str) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_only_the_parent_is_interrupted() -> None:
    """A terminal sends Ctrl-C to all processes; those that work would each write a traceback."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert list(in_processes(ignores_interrupts, ["a", "b", "c"], 2, lambda _: False, set())) == [True, True, True]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
