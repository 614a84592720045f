# SPDX-License-Identifier: Apache-2.0

"""What every function from files to files begins and ends with.

That is its options, a model's file as it was read, the written model with its external data, and the optional files
beside it: the JSON report, the HTML report and the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import Content, PathLike, is_same_file
from poolgrad_lowering.model.io.external_files import plan_copies
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import model_sha256, parse_model, read_bytes
from poolgrad_lowering.model.ir.external import ModelFolder, Reference
from poolgrad_lowering.model.ir.tensors import external_reference, external_tensors
from poolgrad_lowering.report.report import Report

if TYPE_CHECKING:
    from poolgrad_lowering.report.html import Recorder
    from poolgrad_lowering.verification.result import Verification

OnProven = Callable[["Verification"], None]
"""Called with the proof of a model before it is written."""


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """The parameters of `lower_file` of the same names, with their defaults."""

    limits: Limits = DEFAULT_LIMITS
    strict: bool = False
    verify: bool = False
    copy_external: bool = False
    standard: bool = False


class SourceFile:
    """The path and the bytes of a model's file. Raises `FileError` and `InvalidModelError`."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits, self.data = path, limits, read_bytes(path, limits)

    def open(self, data: bytes | None = None) -> tuple[ModelProto, Gate]:
        """Return the model and a gate for it; of the file, or of other bytes that stand for it."""
        gate = Gate(self.limits, ModelFolder.of_file(self.path))
        return parse_model(self.data if data is None else data, self.path), gate

    def require_proven(self, lowered: bytes, on_proven: OnProven | None) -> None:
        """Call `on_proven` with the proof that the bytes of a model compute what the file does.

        Raises `VerificationError` if there is none.
        """
        from poolgrad_lowering.verification.verifier import require_verified  # noqa: PLC0415 - loads onnx's evaluator

        proof = require_verified(parse_model(self.data, self.path), parse_model(lowered, self.path), self.path)
        if on_proven is not None:
            on_proven(proof)


def with_data(
    gate: Gate, model: ModelProto, source: Path, destination: Path, *, data: bytes | None = None, copy: bool = True
) -> tuple[dict[Path, Content], bytes]:
    """Return the contents of a model's new file and of the external data that has to be beside it, and the first alone.

    `data` is the model as bytes, if they are known. Runtimes read external data relative to the folder of the model's
    path as given. Raises `FileError` if it must be copied and `copy` is false.
    """
    contents: dict[Path, Content] = {}
    folder, written = source.parent.resolve(), destination.parent.resolve()
    if gate.external and folder != written and (left := _references(model)):
        if not copy:
            raise FileError(
                f"'{source}' keeps tensors in external files, whose locations are relative to its folder: write the "
                f"output to '{folder}', not '{written}', or copy the files (--copy-external, copy_external=True)"
            )
        contents, moved = plan_copies(gate.external, left, source, destination)
        if moved:
            _move_references(model, moved)
            data = None
    data = gate.serialised(model) if data is None else data
    return {**contents, destination: data}, data


def _references(model: ModelProto) -> dict[str, set[Reference]]:
    """The references of a validated model to external data, by location."""
    found = defaultdict[str, set[Reference]](set)
    for tensor in external_tensors(model):
        reference = external_reference(tensor)
        found[reference.location].add(reference)
    return found


def _move_references(model: ModelProto, moved: Mapping[Reference, Reference]) -> None:
    """Replace references to external data in a validated model."""
    for tensor in external_tensors(model):
        if (new := moved.get(external_reference(tensor))) is None:
            continue
        kept = [entry for entry in tensor.external_data if entry.key not in ("location", "offset")]
        del tensor.external_data[:]
        for key, value in (("location", new.location), ("offset", new.offset)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.external_data.extend(kept)


class SideOutputs:
    """The requested side outputs of a lowering. `recorder` must observe the lowering; None without an HTML report."""

    def __init__(
        self, *models: Path, report: PathLike | None = None, page: PathLike | None = None, plan: PathLike | None = None
    ) -> None:
        """Raises `FileError` if two paths, or a path and a model, are the same file."""
        wanted = {"JSON report": report, "page": page, "plan": plan}
        self._paths = {what: Path(path) for what, path in wanted.items() if path is not None}
        self.paths = list(self._paths.values())
        self.recorder: Recorder | None = None
        for what, path in self._paths.items():
            require_other_file(path, what, *models)
        for first, second in combinations(self._paths, 2):
            require_other_file(self._paths[second], second, self._paths[first], other=f"the {first}")
        if page is not None:
            from poolgrad_lowering.report.html import Recorder  # noqa: PLC0415 - loaded only if a page is requested

            self.recorder = Recorder()

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
