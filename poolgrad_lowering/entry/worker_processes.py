"""Work on many tasks in several processes: results in order, logs come home, a death costs only its own task.

Knows nothing of what the work is.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from logging.handlers import QueueHandler
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_ROOT = "poolgrad_lowering"


def in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, died: Callable[[Task], Result]
) -> Iterator[Result]:
    """The results of some work on tasks, in their order; of one job in this process.

    `died` makes the result of a task whose process has died. Work, tasks and results have to be picklable.
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    logged = partial(_logged, work, _levels())
    pool = _pool(jobs)
    try:
        for task, pending in [(task, pool.submit(logged, task)) for task in tasks]:
            try:
                result, records = pending.result()
            except BrokenProcessPool:
                result, records = _alone(logged, task) or (died(task), [])
            for record in records:
                logging.getLogger(record.name).handle(record)
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    """New interpreters, not forks: this process may have threads."""
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _alone(logged: Callable[[Task], Result], task: Task) -> Result | None:
    """The result in a process of its own, None where that dies too: a dead process takes all of its pool with it."""
    with _pool(1) as alone:
        try:
            return alone.submit(logged, task).result()
        except BrokenProcessPool:
            return None


def _levels() -> dict[str, int]:
    """The levels of the package's loggers."""
    loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(_ROOT)}
    return {name: logger.level for name, logger in loggers.items()}


def _logged(
    work: Callable[[Task], Result], levels: Mapping[str, int], task: Task
) -> tuple[Result, list[logging.LogRecord]]:
    """A result, and what was logged on the way to it."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    kept = _Kept()
    root = logging.getLogger(_ROOT)
    root.addHandler(kept)
    try:
        return work(task), kept.records
    finally:
        root.removeHandler(kept)


class _Kept(QueueHandler):
    """Keeps records, made fit for another process."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.records: list[logging.LogRecord] = []

    def enqueue(self, record: logging.LogRecord) -> None:
        self.records.append(record)
