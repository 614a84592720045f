# SPDX-License-Identifier: Apache-2.0

"""The optional output files of a lowering beside its model: the JSON report, the HTML report and the plan."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from poolgrad_lowering.entry.source import SourceFile
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.io.atomic_write import PathLike, is_same_file
from poolgrad_lowering.model.io.model_file import model_sha256
from poolgrad_lowering.report.report import Report

if TYPE_CHECKING:
    from poolgrad_lowering.report.html import Recorder


class SideOutputs:
    """The requested side outputs of a lowering. `recorder` must observe the lowering; None without an HTML report."""

    def __init__(
        self, *models: Path, report: PathLike | None = None, page: PathLike | None = None, plan: PathLike | None = None
    ) -> None:
        """Raises `FileError` if two paths, or a path and a model, are the same file."""
        wanted = {"JSON report": report, "page": page, "plan": plan}
        self._paths = {what: Path(path) for what, path in wanted.items() if path is not None}
        self.recorder: Recorder | None = None
        for what, path in self._paths.items():
            require_other_file(path, what, *models)
        for first, second in combinations(self._paths, 2):
            require_other_file(self._paths[second], second, self._paths[first], other=f"the {first}")
        if page is not None:
            from poolgrad_lowering.report.html import Recorder  # noqa: PLC0415 - loaded only if a page is requested

            self.recorder = Recorder()

    @property
    def paths(self) -> list[Path]:
        """The paths to write."""
        return list(self._paths.values())

    def contents(self, report: Report, source: SourceFile) -> dict[Path, bytes]:
        """The content of each file for a finished lowering."""
        return {path: self._content(what, report, source) for what, path in self._paths.items()}

    def _content(self, what: str, report: Report, source: SourceFile) -> bytes:
        if what == "plan":
            return report.plan(model_sha256(source.data)).to_json().encode()
        if self.recorder is None or what == "JSON report":
            return report.to_json().encode()
        from poolgrad_lowering.report.html import html_report  # noqa: PLC0415 - as above

        return html_report(report, self.recorder, source.path.name)


def require_other_file(path: Path, what: str, *others: Path, other: str = "the model") -> None:
    """Raise `FileError` if the path of an output, described by `what`, is the same file as one of the others."""
    for existing in others:
        if is_same_file(path, existing):
            raise FileError(f"cannot write the {what} to '{path}': that is {other}; give it a file of its own")
