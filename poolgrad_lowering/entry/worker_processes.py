# SPDX-License-Identifier: Apache-2.0

"""Maps a function over tasks in several processes.

Results are in order, log records reach the parent process, and a process that dies loses only its own task.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_ROOT = "poolgrad_lowering"


def in_processes(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    jobs: int,
    on_death: Callable[[Task], Result],
    ended: set[int],
) -> Generator[Result, None, None]:
    """Yield `work(task)` for each task, in order, computed in `jobs` processes; 1 means this process.

    `on_death` returns the result of a task whose process died. `work`, tasks and results must be picklable. `ended`
    gets the positions of the tasks that have a result, also of those whose turn has not come. After an interrupt the
    tasks that are being worked on come to their end.
    """
    if jobs == 1:
        for position, task in enumerate(tasks):
            result = work(task)
            ended.add(position)
            yield result
        return
    logged = partial(_logged, work, _levels())
    pool = _pool(jobs)
    try:
        with _interrupts_ignored():
            pendings = [pool.submit(logged, task) for task in tasks]
        for position, pending in enumerate(pendings):
            pending.add_done_callback(partial(_note, ended, position))
        for position, (task, pending) in enumerate(zip(tasks, pendings, strict=True)):
            try:
                result, records = pending.result()
            except BrokenProcessPool:
                result, records = _run_alone(logged, task) or (on_death(task), [])
            for record in records:
                logging.getLogger(record.name).handle(record)
            ended.add(position)
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


def _note(ended: set[int], position: int, pending: Future[object]) -> None:
    if not (pending.cancelled() or pending.exception()):
        ended.add(position)


def _pool(jobs: int) -> ProcessPoolExecutor:
    """A pool of new interpreters; a fork is not safe if this process has threads."""
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _run_alone(logged: Callable[[Task], Result], task: Task) -> Result | None:
    """The result of a task in a new process, None if that process dies too.

    A process that dies breaks its whole pool, so the task may not be the one that killed it.
    """
    with _pool(1) as alone:
        try:
            with _interrupts_ignored():
                pending = alone.submit(logged, task)
            return pending.result()
        except BrokenProcessPool:
            return None


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C while processes are started, which then ignore it too: only this process is interrupted by it.

    A terminal sends it to all of them, and each would write a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _levels() -> dict[str, int]:
    """The levels of the package's loggers."""
    loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(_ROOT)}
    return {name: logger.level for name, logger in loggers.items()}


def _logged(
    work: Callable[[Task], Result], levels: Mapping[str, int], task: Task
) -> tuple[Result, list[logging.LogRecord]]:
    """The result of a task and the records that it logged."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    records = SimpleQueue[logging.LogRecord]()
    handler = QueueHandler(records)  # which prepares them for pickling
    root = logging.getLogger(_ROOT)
    root.addHandler(handler)
    try:
        result = work(task)
    finally:
        root.removeHandler(handler)
    return result, [records.get() for _ in range(records.qsize())]
