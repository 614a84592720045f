# SPDX-License-Identifier: Apache-2.0

"""Does one thing with every model below a folder, in several processes; knows nothing of what is done.

An error in one model, or a folder that cannot be read, does not stop the others.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from poolgrad_lowering.model.diagnostics.errors import FileError, PoolgradError
from poolgrad_lowering.model.diagnostics.text import counted

Result = TypeVar("Result")

OnResult = Callable[[Result, int, int], None]
"""Called after each model with its result, the number of results so far, and the number of models."""

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """A model below a folder, or a folder that cannot be read: its path relative to the folder, and the error."""

    path: str
    error: str = ""


def models_below(folder: Path) -> list[Found]:
    """Return the `*.onnx` below a folder and the folders that cannot be read, sorted by path.

    Links to folders are not followed. Raises `FileError` if the folder itself cannot be read or nothing is found.
    """
    if not folder.is_dir():
        raise FileError(f"cannot read '{folder}': it is not a folder")
    found: list[Found] = []

    def unreadable(error: OSError) -> None:
        place, what = Path(error.filename), f"cannot read '{error.filename}': {error.strerror or error}"
        if place == folder:
            raise FileError(what) from error
        found.append(Found(place.relative_to(folder).as_posix(), what))

    for parent, _, names in os.walk(folder, onerror=unreadable):
        below = Path(parent).relative_to(folder)
        found += [Found((below / name).as_posix()) for name in names if name.endswith(".onnx")]
    if not found:
        raise FileError(f"'{folder}' holds no model: there is no *.onnx in it or below it")
    return sorted(found, key=lambda one: one.path)


def for_each(
    work: Callable[[str], Result],
    models: list[Found],
    failed: Callable[..., Result],
    *,
    jobs: int | None = None,
    on_result: OnResult[Result] | None = None,
) -> list[Result]:
    """Return `work(path)` for each model, in order.

    `failed` returns the result for a path and the keyword `error`. `jobs` is the number of processes, by default one
    per CPU; with more than one, `work`, `failed` and results must be picklable. A `KeyboardInterrupt` says how many
    models are done.
    """
    paths = [model.path for model in models if not model.error]
    died = "the process that worked on it died: out of memory, or a fault in a library"
    guarded = partial(_guarded, work, failed)
    ended: set[str] = set()
    done = in_processes(guarded, paths, min(jobs or _cpus(), len(paths) or 1), partial(failed, error=died), ended)
    results: list[Result] = []
    try:
        for model in models:
            results.append(failed(model.path, error=model.error) if model.error else next(done))
            ended.add(model.path)
            if on_result is not None:
                on_result(results[-1], len(results), len(models))
    except KeyboardInterrupt:
        done.close()
        raise KeyboardInterrupt(f"{len(ended)} of {counted(len(models), 'model')} done") from None
    return results


def _guarded(work: Callable[[str], Result], failed: Callable[..., Result], path: str) -> Result:
    """Return the result for one model; errors become results."""
    try:
        return work(path)
    except PoolgradError as error:
        return failed(path, error=str(error))
    except Exception as error:
        logger.exception("unexpected error in %s", path)
        return failed(path, error=f"unexpected {type(error).__name__}: {error}")


def _cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_ROOT = "poolgrad_lowering"


def in_processes(
    work: Callable[[str], Result], paths: Sequence[str], jobs: int, on_death: Callable[[str], Result], ended: set[str]
) -> Generator[Result, None, None]:
    """Yield `work(path)` for each path, in order, computed in `jobs` processes; 1 means this process.

    `on_death` returns the result of a path whose process died. `ended` gets the paths whose turn has not come and that
    have a result. After an interrupt the paths that are being worked on come to their end.
    """
    if jobs == 1:
        yield from map(work, paths)
        return
    logged = partial(_logged, work, _levels())
    pool = _pool(jobs)
    try:
        with _interrupts_ignored():
            pendings = {path: pool.submit(logged, path) for path in paths}
        for path, pending in pendings.items():
            pending.add_done_callback(partial(_note, ended, path))
        for path, pending in pendings.items():
            try:
                result, records = pending.result()
            except BrokenProcessPool:
                result, records = _run_alone(logged, path) or (on_death(path), [])
            for record in records:
                logging.getLogger(record.name).handle(record)
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


def _note(ended: set[str], path: str, pending: Future[object]) -> None:
    if not (pending.cancelled() or pending.exception()):
        ended.add(path)


def _pool(jobs: int) -> ProcessPoolExecutor:
    """A pool of new interpreters; a fork is not safe if this process has threads."""
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _run_alone(logged: Callable[[str], Result], path: str) -> Result | None:
    """The result for a path in a new process, None if that process dies too.

    A process that dies breaks its whole pool, so this path may not be the one that killed it.
    """
    with _pool(1) as alone:
        try:
            with _interrupts_ignored():
                pending = alone.submit(logged, path)
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
    work: Callable[[str], Result], levels: Mapping[str, int], path: str
) -> tuple[Result, list[logging.LogRecord]]:
    """The result for a path and the records that were logged."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    records = SimpleQueue[logging.LogRecord]()
    handler = QueueHandler(records)  # which prepares them for pickling
    root = logging.getLogger(_ROOT)
    root.addHandler(handler)
    try:
        result = work(path)
    finally:
        root.removeHandler(handler)
    return result, [records.get() for _ in range(records.qsize())]
