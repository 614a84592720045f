# SPDX-License-Identifier: Apache-2.0

"""Lowers every model below a folder to the same relative path below another folder, or inspects them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from poolgrad_lowering.entry.each_model import OnResult, for_each, models_below
from poolgrad_lowering.entry.file_io import FileOptions, SideOutputs
from poolgrad_lowering.entry.files import inspect_file, lower_path
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.model.io.atomic_write import PathLike, make_folder, write_bytes
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.report.report import FileResult

INDEX = "index.html"
"""The page with links to the pages of all models of a folder."""


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
    html_folder: PathLike | None = None,
    copy_external: bool = False,
    standard: bool = False,
    keep_onnx: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_result: OnResult[FileResult] | None = None,
) -> list[FileResult]:
    """Lower every `*.onnx` below `source` to the same relative path below `destination`.

    Returns one result per model, sorted by path. `jobs` is the number of processes, by default one per CPU; with more
    than one, the main module must be importable (see `multiprocessing`). The report of `a/b.onnx` is written to
    `a/b.onnx.json` below `report_folder`, and its page to `a/b.onnx.html` below `html_folder`, which also gets an
    `index.html`. `on_result` is called after each model with its result, the number of results so far, and the number
    of models. Links to folders are not followed. The other parameters are those of `lower_file`.

    Raises `UnknownTargetError`, and `FileError` if `source` is not a folder or has no model, or if a folder to write to
    is inside it, contains it, or is not a folder.
    """
    source, destination, reports, pages = Path(source), Path(destination), _path(report_folder), _path(html_folder)
    options = FileOptions(
        target=target,
        forward=forward,
        trust_defaults=trust_defaults,
        limits=limits,
        strict=strict,
        verify=verify,
        copy_external=copy_external,
        standard=standard,
        keep_onnx=keep_onnx,
    )
    work = partial(_lower_one, source, destination, options, reports=reports, pages=pages)
    return _each(source, (destination, reports), pages, work, jobs=jobs, on_result=on_result)


def inspect_folder(
    source: Path,
    options: FileOptions,
    *,
    jobs: int | None = None,
    html_folder: Path | None = None,
    on_result: OnResult[FileResult] | None = None,
) -> list[FileResult]:
    """Return the results that `lower_folder` would give, without writing a model; raises its errors.

    The reports are those of `inspect_file`.
    """
    work = partial(_inspect_one, source, html_folder, options)
    return _each(source, (), html_folder, work, jobs=jobs, on_result=on_result)


def _each(
    source: Path,
    destinations: Iterable[Path | None],
    pages: Path | None,
    work: Callable[[str], FileResult],
    *,
    jobs: int | None,
    on_result: OnResult[FileResult] | None,
) -> list[FileResult]:
    """Do `work` for each model, which writes below `destinations` and `pages`, and write the index of the pages."""
    models = models_below(source)
    _require_apart(source, (*destinations, pages))
    results = for_each(work, models, FileResult, jobs=jobs, on_result=on_result)
    if pages is not None:
        from poolgrad_lowering.report.html.page import index_page  # noqa: PLC0415 - only for pages

        make_folder(pages)
        write_bytes(pages / INDEX, index_page(source.name or str(source), results))
    return results


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)


def _require_apart(source: Path, destinations: Iterable[Path | None]) -> None:
    for destination in filter(None, destinations):
        inner, outer = Path(os.path.realpath(source)), Path(os.path.realpath(destination))
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise FileError(
                f"cannot write below '{destination}': it contains '{source}' or lies in it; use separate folders"
            )
        if outer.exists() and not outer.is_dir():
            raise FileError(f"cannot write below '{destination}': it is not a folder")


def _lower_one(
    source: Path, destination: Path, options: FileOptions, path: str, *, reports: Path | None, pages: Path | None
) -> FileResult:
    model, lowered = source / path, destination / path
    make_folder(lowered.parent)
    report, page = _beside(reports, f"{path}.json"), _beside(pages, f"{path}.html")
    found = lower_path(model, lowered, options, SideOutputs(model, lowered, report=report, page=page))
    if options.strict and found.incomplete:
        return FileResult(path, found, f"{counted(len(found.refused), 'anchor')} refused, no model written")
    return FileResult(path, found, written=True)


def _inspect_one(source: Path, pages: Path | None, options: FileOptions, path: str) -> FileResult:
    return FileResult(path, inspect_file(source / path, options, html_path=_beside(pages, f"{path}.html")))


def _beside(folder: Path | None, name: str) -> Path | None:
    """Return the path of a file below a folder, which is made; None without a folder."""
    if folder is None:
        return None
    make_folder((folder / name).parent)
    return folder / name
