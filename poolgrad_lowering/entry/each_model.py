# SPDX-License-Identifier: Apache-2.0

"""Does one thing with every model below a folder, in several processes; knows nothing of what is done.

An error in one model, or a folder that cannot be read, does not stop the others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from poolgrad_lowering.entry.worker_processes import in_processes
from poolgrad_lowering.model.diagnostics.errors import FileError, PoolgradError
from poolgrad_lowering.model.diagnostics.text import counted

Result = TypeVar("Result")

OnResult = Callable[[Result, int, int], None]
"""Called after each model with its result, the number of results so far, and the number of models."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
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
    ended: set[int] = set()
    done = in_processes(guarded, paths, min(jobs or _cpus(), len(paths) or 1), partial(failed, error=died), ended)
    results: list[Result] = []
    try:
        for model in models:
            results.append(failed(model.path, error=model.error) if model.error else next(done))
            if on_result is not None:
                on_result(results[-1], len(results), len(models))
    except KeyboardInterrupt:
        done.close()
        count = len(ended) + sum(bool(model.error) for model in models[: len(results)])
        raise KeyboardInterrupt(f"{count} of {counted(len(models), 'model')} done") from None
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
