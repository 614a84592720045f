# SPDX-License-Identifier: Apache-2.0

"""Prints results for a folder of models: one line for each model as it is done, and totals."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from poolgrad_lowering.entry.cli.console import ProgressBar, print_error, print_json, print_line, print_result
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.diagnostics.text import counted

if TYPE_CHECKING:
    from poolgrad_lowering.report.report import FileResult


class FolderOutput:
    """Prints a line for each model. With --quiet or --json only errors are printed, to standard error."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._silent = options.quiet or options.json
        self._bar = ProgressBar(sys.stderr, quiet=options.quiet)

    @contextmanager
    def cleared_by_interrupts(self) -> Iterator[None]:
        """Remove the progress bar at a KeyboardInterrupt."""
        try:
            yield
        except KeyboardInterrupt:
            self._bar.clear()
            raise

    def show(self, path: str, error: str | None, status: str, detail: str, *, done: int, total: int) -> None:
        """Print the line of a model that is done; `status` and `detail` are not used if there is an error."""
        self._bar.clear()
        if error is not None and self._silent:
            print_error(f"failed: {path}: {error}")
        elif not self._silent:
            print_result(path, "failed" if error else status, error or detail)
        self._bar(done, total, path)


def run_folder(work: Callable[..., list[FileResult]], status: str, options: argparse.Namespace) -> ExitCode:
    """Lower or inspect the models of a folder, print a line for each and the totals, and return the exit code.

    `work` takes `jobs`, `html_folder` and `on_result`; `status` is the word for a model that is done.
    """
    from poolgrad_lowering.entry.cli.report_text import print_warnings  # noqa: PLC0415 - `--help` must not load onnx

    if options.plan is not None:
        raise UsageError("--plan is for one model, not for a folder")
    output = FolderOutput(options)

    def show(result: FileResult, done: int, total: int) -> None:
        detail = ""
        if result.report is not None:
            print_warnings(result.report, options, result.path)
            notes = "".join(f"; {note.code}" for note in result.report.notes if not note.warning)
            proven = ", proven" if result.report.lowered and getattr(options, "verify", False) else ""
            detail = f"{len(result.report.lowered)} lowered{proven}, {len(result.report.refused)} refused{notes}"
        output.show(result.path, result.error, status, detail, done=done, total=total)

    with output.cleared_by_interrupts():
        results = work(jobs=options.jobs, html_folder=options.html, on_result=show)
    return _print_files(results, status, options)


def _print_files(results: list[FileResult], status: str, options: argparse.Namespace) -> ExitCode:
    """Print the totals, or everything as JSON, and return the exit code."""
    from poolgrad_lowering.entry.cli.report_text import print_defects  # noqa: PLC0415 - `--help` must not load onnx

    failed = sum(result.error is not None for result in results)
    reports = [result.report for result in results if result.report is not None]
    refused = [anchor.code or "" for report in reports for anchor in report.refused]
    by_code = dict(sorted(Counter(refused).items()))
    if options.json:
        files = [{"path": r.path, "error": r.error, "report": r.report and r.report.to_dict()} for r in results]
        summary = {"files": len(results), "failed": failed, "refused_by_code": by_code}
        print_json({"files": files, "summary": summary})
    elif not options.quiet:
        print_line(
            f"{counted(len(results), 'model')}, {len(results) - failed} {status}, {failed} failed; "
            f"{counted(sum(len(report.lowered) for report in reports), 'anchor')} lowered, {len(refused)} refused"
        )
        if by_code:
            print_line(f"refused: {', '.join(f'{code} {count}' for code, count in by_code.items())}")
        if options.html is not None:
            print_line(f"wrote {options.html / 'index.html'}")
    defects = print_defects(*reports)
    return ExitCode.FAILED if failed else defects
