# SPDX-License-Identifier: Apache-2.0

"""Lowers every model below a folder to the same relative path below another folder, in several processes.

An error in one model does not stop the others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from poolgrad_lowering.diagnostics.errors import FileError, PoolgradError
from poolgrad_lowering.entry.files import lower_file
from poolgrad_lowering.entry.worker_processes import in_processes
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.io.atomic_write import PathLike, make_folder
from poolgrad_lowering.plans.apply import resolve_target
from poolgrad_lowering.report import Report

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileResult:
    """The result for one model: its path relative to the folder, and its report or its error.

    A model that `strict` did not write has both. `written` is whether the model was written.
    """

    path: str
    report: Report | None = None
    error: str | None = None
    written: bool = False


def lower_folder(
    source: PathLike,
    destination: PathLike,
    *,
    jobs: int | None = None,
    target: str | None = None,
    forward: bool = True,
    trust_defaults: bool = False,
    strict: bool = False,
    verify: bool = False,
    report_folder: PathLike | None = None,
    copy_external: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_result: Callable[[FileResult, int, int], None] | None = None,
) -> list[FileResult]:
    """Lower every `*.onnx` below `source` to the same relative path below `destination`.

    Returns one result per model, sorted by path. `jobs` is the number of processes, by default one per CPU; with more
    than one, the main module must be importable (see `multiprocessing`). The report of `a/b.onnx` is written to
    `a/b.onnx.json` below `report_folder`. `on_result` is called after each model with its result, the number of results
    so far, and the number of models. Links to folders are not followed. The other parameters are those of `lower_file`.

    Raises `UnknownTargetError`, and `FileError` if `source` is not a folder or has no model, or if a folder to write to
    is inside it, contains it, or is not a folder.
    """
    source, destination = Path(source), Path(destination)
    reports = None if report_folder is None else Path(report_folder)
    resolve_target(target, None)
    paths = _models(source)
    for folder in (destination, *([reports] if reports else [])):
        _require_apart(source, folder)
    options = {
        "target": target,
        "forward": forward,
        "trust_defaults": trust_defaults,
        "strict": strict,
        "verify": verify,
        "copy_external": copy_external,
        "limits": limits,
    }
    results: list[FileResult] = []
    work = partial(_lower_one, source, destination, reports, options)
    for result in in_processes(work, paths, min(jobs or _cpus(), len(paths)), _process_died):
        results.append(result)
        if on_result is not None:
            on_result(result, len(results), len(paths))
    return results


def _models(folder: Path) -> list[str]:
    """The models below a folder, as paths relative to it, sorted."""
    if not folder.is_dir():
        raise FileError(f"cannot read '{folder}': it is not a folder")
    found = [
        (Path(parent) / name).relative_to(folder).as_posix()
        for parent, _, names in os.walk(folder, onerror=_unreadable)
        for name in names
        if name.endswith(".onnx")
    ]
    if not found:
        raise FileError(f"'{folder}' holds no model: there is no *.onnx in it or below it")
    return sorted(found)


def _unreadable(error: OSError) -> None:
    raise FileError(f"cannot read '{error.filename}': {error.strerror or error}") from error


def _require_apart(source: Path, destination: Path) -> None:
    inner, outer = Path(os.path.realpath(source)), Path(os.path.realpath(destination))
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise FileError(
            f"cannot write below '{destination}': it contains '{source}' or lies in it; use separate folders"
        )
    if outer.exists() and not outer.is_dir():
        raise FileError(f"cannot write below '{destination}': it is not a folder")


def _cpus() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lower_one(
    source: Path, destination: Path, report_folder: Path | None, options: dict[str, Any], path: str
) -> FileResult:
    """The result for one model; errors become results."""
    report_path = None if report_folder is None else report_folder / f"{path}.json"
    try:
        for file in (destination / path, *([] if report_path is None else [report_path])):
            make_folder(file.parent)
        report = lower_file(source / path, destination / path, report_path=report_path, **options)
    except PoolgradError as error:
        return FileResult(path, error=str(error))
    except Exception as error:
        logger.exception("unexpected error in %s", path)
        return FileResult(path, error=f"unexpected {type(error).__name__}: {error}")
    if options["strict"] and report.refused:
        return FileResult(path, report, f"{len(report.refused)} candidates refused, no model written")
    return FileResult(path, report, written=True)


def _process_died(path: str) -> FileResult:
    return FileResult(path, error="the process that worked on it died: out of memory, or a fault in a library")
