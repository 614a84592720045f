# SPDX-License-Identifier: Apache-2.0

"""Lowers and inspects model files: validates what it reads, and writes all files or none."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from poolgrad_lowering.compiler.lowering.select import require_same_file
from poolgrad_lowering.entry.file_io import FileOptions, OnProven, SideOutputs, SourceFile, with_data
from poolgrad_lowering.entry.lower import is_changed, lower_in_place
from poolgrad_lowering.model.io.atomic_write import Content, PathLike, write_files
from poolgrad_lowering.model.io.external_files import require_not_external
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import errors_name, model_sha256
from poolgrad_lowering.report.report import Report

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan

logger = logging.getLogger(__name__)


def lower_file(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    forward: bool = True,
    plan: LoweringPlan | None = None,
    trust_defaults: bool = False,
    strict: bool = False,
    verify: bool = False,
    on_proven: OnProven | None = None,
    report_path: PathLike | None = None,
    html_path: PathLike | None = None,
    copy_external: bool = False,
    standard: bool = False,
    keep_onnx: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Lower the model in a file, write it to another file, and return the report.

    All files are written completely or not at all: after an error no file has changed. A model without sites is written
    with the bytes of the source.

    Args:
        source: The file of the model.
        destination: The file to write. It may be `source`, which is then replaced.
        target: A product or SoC name; by default the plan's target, else atlas-a2.
        forward: Whether forward pools are lowered with their gradients.
        plan: Decides what each site becomes. It must be for this file.
        trust_defaults: Whether initializers that are also graph inputs are constants, as in `lower`.
        strict: Write no model if an anchor was refused, or with `standard` a node has no definition; the report says
            which.
        verify: Write no model unless it is proven to compute what the source does.
        on_proven: With `verify`, called with the proof of a lowered model before it is written.
        report_path: Where to write the report as JSON, after the model.
        html_path: Where to write the report as a page, after the model.
        copy_external: If `destination` is in another folder, copy the external data of the lowered model there. A data
            file of which only some tensors are used is written with these only, under a name that begins with the
            model's name.
        standard: Whether to write the operators of training runtimes that are left in standard ONNX, as in `lower`.
        keep_onnx: Whether to leave gradients that are written in ONNX's own operators, as in `lower`.
        limits: The largest model that is accepted, and how much external data is read.

    Raises:
        FileError: A file cannot be read or written, or the external data would have to be copied.
        InvalidModelError: The file is not valid ONNX, or exceeds one of `limits`.
        UnknownTargetError: No product and no SoC has the name `target`.
        PlanError: The plan does not fit the file or the target.
        VerificationError: With `verify`, the lowered model is not proven.

    Example:
        >>> from poolgrad_lowering import lower_file
        >>> lower_file("training.onnx", "lowered.onnx", target="Ascend910B3", verify=True)
        <Report for atlas-a2: 3 anchors, 2 lowered, 0 refused, 1 unrelated; nodes 78 → 69>
    """
    options = FileOptions(
        target=target,
        forward=forward,
        plan=plan,
        trust_defaults=trust_defaults,
        limits=limits,
        strict=strict,
        verify=verify,
        copy_external=copy_external,
        standard=standard,
        keep_onnx=keep_onnx,
    )
    side = SideOutputs(Path(source), Path(destination), report=report_path, page=html_path)
    return lower_path(Path(source), Path(destination), options, side, on_proven)


def lower_path(
    path: Path, destination: Path, options: FileOptions, descriptions: SideOutputs, on_proven: OnProven | None = None
) -> Report:
    """As `lower_file`."""
    source = SourceFile(path, options.limits)
    logger.info("%s: %d bytes", path, len(source.data))
    if options.plan is not None:
        require_same_file(options.plan, model_sha256(source.data))
    model, gate = source.open()
    with errors_name(path):
        report = lower_in_place(model, options, gate, descriptions.recorder, standard=options.standard)
        lowered = gate.serialised(model) if is_changed(report) else source.data
        if descriptions.recorder is not None:
            from poolgrad_lowering.ge.atc.ways import find_places  # noqa: PLC0415 - what a plain lowering does not load

            descriptions.recorder.placement = find_places(*source.open(lowered))
    require_not_external(gate.external, path, [destination, *descriptions.paths])
    contents: dict[Path, Content] = {}
    if not (options.strict and report.incomplete):
        if options.verify and is_changed(report):
            source.require_proven(lowered, on_proven)
        contents, lowered = with_data(gate, model, path, destination, data=lowered, copy=options.copy_external)
    report = report._replace(bytes_before=len(source.data), bytes_after=len(lowered))
    write_files(contents, descriptions.contents(report, source))
    for written in contents:
        logger.info("wrote %s", written)
    return report


def inspect_file(
    source: PathLike,
    options: FileOptions | None = None,
    *,
    plan_path: PathLike | None = None,
    html_path: PathLike | None = None,
) -> Report:
    """The report that `lower_file` would return, with the ways in which the lowered model can run, and
    where its nodes run beside onnxruntime's CANN provider.

    Writes no model; raises the errors of `lower_file`.

    Writes the plan of the same lowering to `plan_path`, and the HTML report to `html_path`, if they are given.
    """
    from poolgrad_lowering.ge.atc.ways import examine  # noqa: PLC0415 - what `lower_file` does not load
    from poolgrad_lowering.ge.registered import without_layout  # noqa: PLC0415

    path, options = Path(source), options or FileOptions()
    descriptions = SideOutputs(path, page=html_path, plan=plan_path)
    file = SourceFile(path, options.limits)
    model, gate = file.open()
    with errors_name(path):
        report = lower_in_place(model, options, gate, descriptions.recorder, standard=options.standard)
        lowered = gate.serialised(model) if is_changed(report) else file.data
        shown, own = file.open(lowered)
        kept, for_atc = without_layout(options.product), shown
        if any(anchor.op in kept for anchor in report.anchors):
            for_atc, another = file.open()
            lower_in_place(for_atc, replace(options, keep_onnx=kept), another, standard=options.standard)
        ways, placement = examine(shown, for_atc, options.product, own)
        report = report._replace(bytes_before=len(file.data), bytes_after=len(lowered))
        report = report._replace(ways=ways, placement=placement.report)
        if descriptions.recorder is not None:
            descriptions.recorder.placement = placement
    require_not_external(gate.external, path, descriptions.paths)
    write_files({}, descriptions.contents(report, file))
    return report
