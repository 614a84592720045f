"""Models as files: what is read has passed the gate, what is written is whole."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from onnx import TensorProto

from poolgrad_lowering.diagnostics.errors import FileError
from poolgrad_lowering.entry.side_outputs import SideOutputs
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.io.atomic_write import Content, PathLike, write_files
from poolgrad_lowering.io.external_files import Copies, copies, require_apart
from poolgrad_lowering.io.model_file import naming, open_model, parse_model, read_bytes
from poolgrad_lowering.ir.external import ModelFolder, Reference
from poolgrad_lowering.ir.model import Model, edit_external
from poolgrad_lowering.ir.tensors import external_reference
from poolgrad_lowering.lowering import lower_in_place
from poolgrad_lowering.plans.apply import require_same_file, resolve_target
from poolgrad_lowering.plans.lowering_plan import LoweringPlan, model_sha256
from poolgrad_lowering.report import Report

logger = logging.getLogger(__name__)


def lower_file(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    forward: bool = True,
    plan: LoweringPlan | None = None,
    strict: bool = False,
    verify: bool = False,
    report_path: PathLike | None = None,
    html_path: PathLike | None = None,
    copy_external: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Lower the model in `source` and write it to `destination`, which may be the same file.

    Without sites the bytes of the source are written as they are. A `plan` has to be of this file and decides what
    becomes of each site; without `target`, the plan's is taken, else atlas-a2. With `strict`, no model is written
    if an anchor was refused; with `verify`, none if the lowered model is not proven to compute what the source does,
    which raises `VerificationError`. The report goes to `report_path` as JSON and to `html_path` as a page, after the
    model. Where the destination is in another folder, `copy_external` copies the external data beside it that the
    written model has; a file that lost tensors is written without them, under a name that begins with the model's.
    Raises `FileError`, `InvalidModelError`, `UnknownTargetError` and `PlanError`; all files then are what they were.
    """
    found = resolve_target(target, plan)
    source, destination = Path(source), Path(destination)
    descriptions = SideOutputs(source, destination, report=report_path, page=html_path)
    data = read_bytes(source, limits)
    logger.info("%s: %d bytes", source, len(data))
    if plan is not None:
        require_same_file(plan, model_sha256(data))
    model = open_model(data, source)
    gate = Gate(limits, ModelFolder.of_file(source))
    with naming(source):
        outcome = lower_in_place(model, found, forward=forward, plan=plan, gate=gate, observer=descriptions.recorder)
        lowered = gate.serialised(model) if outcome.changed else data
    report = outcome.report(len(data), len(lowered))
    require_apart(gate.external, source, [destination, *descriptions.paths])
    contents: dict[Path, Content] = {}
    if not (strict and report.refused):
        if verify and report.lowered:
            _require_verified(data, lowered, source)
        contents, moved = _missing_data(gate, model, source, destination, copy=copy_external)
        if moved:
            _move(model, moved)
            lowered = gate.serialised(model)
            report = outcome.report(len(data), len(lowered))
        contents[destination] = lowered
    write_files(contents, descriptions.contents(report, source, data))
    for path in contents:
        logger.info("wrote %s", path)
    return report


def inspect_file(
    source: PathLike,
    *,
    target: str | None = None,
    forward: bool = True,
    plan_path: PathLike | None = None,
    html_path: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """What `lower_file` would do. Raises as it does; writes nothing but the plan that does the same and the page, where
    `plan_path` and `html_path` ask for them.
    """
    found, source = resolve_target(target, None), Path(source)
    descriptions = SideOutputs(source, page=html_path, plan=plan_path)
    data = read_bytes(source, limits)
    model, gate = open_model(data, source), Gate(limits, ModelFolder.of_file(source))
    with naming(source):
        outcome = lower_in_place(model, found, forward=forward, gate=gate, observer=descriptions.recorder)
        report = outcome.report(len(data), len(gate.serialised(model)) if outcome.changed else len(data))
    require_apart(gate.external, source, descriptions.paths)
    write_files({}, descriptions.contents(report, source, data))
    return report


def _missing_data(gate: Gate, model: Model, source: Path, destination: Path, *, copy: bool) -> Copies:
    """The external data to copy for a lowered model: runtimes look for it relative to the path's folder as given."""
    folder, written = source.parent.resolve(), destination.parent.resolve()
    if not gate.external or folder == written or not (left := _references(model)):
        return Copies({}, {})
    if copy:
        return copies(gate.external, left, source, destination)
    raise FileError(
        f"'{source}' keeps tensors in external files, which are named relative to its folder: write the output into "
        f"'{folder}', not '{written}', or have them copied (--copy-external, copy_external=True)"
    )


def _references(model: Model) -> dict[str, set[Reference]]:
    """The references of a sound model to external data, by location."""
    found = defaultdict[str, set[Reference]](set)

    def see(tensor: TensorProto) -> bool:
        reference = external_reference(tensor)
        found[reference.location].add(reference)
        return False

    edit_external(model, see)
    return found


def _move(model: Model, moved: Mapping[Reference, Reference]) -> None:
    """Replace references to external data in a sound model."""

    def replace(tensor: TensorProto) -> bool:
        new = moved.get(external_reference(tensor))
        if new is None:
            return False
        kept = [entry for entry in tensor.external_data if entry.key not in ("location", "offset")]
        del tensor.external_data[:]
        for key, value in (("location", new.location), ("offset", new.offset)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.external_data.extend(kept)
        return True

    edit_external(model, replace)


def _require_verified(data: bytes, lowered: bytes, source: Path) -> None:
    from poolgrad_lowering.verification.files import require_verified  # noqa: PLC0415 - loads onnx's evaluator

    require_verified(parse_model(data, source), parse_model(lowered, source), source)
