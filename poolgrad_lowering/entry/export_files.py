# SPDX-License-Identifier: Apache-2.0

"""Exports model files for CANN: validates what it reads, and writes all files or none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from onnx import ModelProto

from poolgrad_lowering.entry.exports import AtcReport, CannReport, ExportReport, export_cann_in_place, export_in_place
from poolgrad_lowering.entry.file_io import FileOptions, OnProven, SideOutputs, SourceFile, with_data
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import Content, PathLike, write_files
from poolgrad_lowering.model.io.external_files import require_not_external
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import errors_name

logger = logging.getLogger(__name__)


def export_atc_file(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    weights_as_inputs: Sequence[str] = (),
    force: bool = False,
    verify: bool = False,
    on_proven: OnProven | None = None,
    report_path: PathLike | None = None,
    copy_external: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> AtcReport:
    """Export the model in `source`, an original or a lowered one, for ATC and write it to `destination`.

    `target` and `weights_as_inputs` are those of `export_atc`. A model that ATC cannot convert is written only with
    `force`. With `verify`, the model is written only if it is proven to compute what the source does; otherwise
    `VerificationError` is raised. `on_proven` is called with the proof before the model is written. The report is
    written to `report_path` as JSON, also if the model is not. `copy_external` and `limits` are those of `lower_file`.

    Raises `FileError`, `InvalidModelError`, `UnknownTargetError` and `UsageError`; then no file has changed.
    """
    file = Path(destination).name
    export = partial(export_in_place, target=target, weights_as_inputs=weights_as_inputs, file=file)
    options = FileOptions(target=target, limits=limits, verify=verify, copy_external=copy_external)
    return _write((source, destination, report_path), export, options, force, on_proven)


def export_cann_file(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    force: bool = False,
    verify: bool = False,
    on_proven: OnProven | None = None,
    report_path: PathLike | None = None,
    copy_external: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    lower_onnx: bool = False,
) -> CannReport:
    """Export the model in `source` as `export_cann` does and write it to `destination`.

    A model with an obstacle is written only with `force`. `verify`, `on_proven`, `report_path`, `copy_external` and
    `limits` are those of `export_atc_file`, `lower_onnx` is that of `export_cann`.

    Raises `FileError`, `InvalidModelError`, `UnknownTargetError` and `VerificationError`; then no file has changed.
    """
    keep_onnx = not lower_onnx
    options = FileOptions(target=target, limits=limits, verify=verify, copy_external=copy_external, keep_onnx=keep_onnx)
    export = partial(export_cann_in_place, options=options)
    return _write((source, destination, report_path), export, options, force, on_proven)


R = TypeVar("R", bound=ExportReport)


def _write(
    paths: tuple[PathLike, PathLike, PathLike | None],
    export: Callable[[ModelProto, Gate, int], R],
    options: FileOptions,
    force: bool,
    on_proven: OnProven | None,
) -> R:
    """Read the source, export the model, and write the files. `export` takes the model, its gate and its size."""
    path, destination = Path(paths[0]), Path(paths[1])
    descriptions = SideOutputs(path, destination, report=paths[2]).paths
    source = SourceFile(path, options.limits)
    model, gate = source.open()
    with errors_name(path):
        report = export(model, gate, len(source.data))
    if report.lowering.warnings and not force:
        _, tensor, reason = report.lowering.warnings[0]
        raise FileError(
            f"cannot export '{path}': {tensor}: {reason}; put the complete file beside the model (--force, force=True "
            "write the model without it)"
        )
    require_not_external(gate.external, path, [destination, *descriptions])
    contents: dict[Path, Content] = {}
    if report.converts or force:
        if options.verify:
            source.require_proven(gate.serialised(model), on_proven)
        contents, _ = with_data(gate, model, path, destination, copy=options.copy_external)
    write_files(contents, {described: report.to_json().encode() for described in descriptions})
    for written in contents:
        logger.info("wrote %s", written)
    return report
