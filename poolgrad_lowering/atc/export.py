# SPDX-License-Identifier: Apache-2.0

"""Exports a model for ATC: from an original or a lowered model to one that CANN's ONNX parser takes.

The exported model still runs in onnxruntime, by function bodies or with the execution provider, with the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.atc.check import find_obstacles
from poolgrad_lowering.atc.conversion import Conversion, conversion
from poolgrad_lowering.atc.expand import expand_operators
from poolgrad_lowering.atc.rank import raise_ranks
from poolgrad_lowering.atc.weights import defaults, make_inputs
from poolgrad_lowering.diagnostics.counted import counted
from poolgrad_lowering.diagnostics.html_table import html_table
from poolgrad_lowering.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.ge.forms import write_forms
from poolgrad_lowering.ge.obstacles import opset_of
from poolgrad_lowering.ge.tidy import (
    declare_results,
    drop_stale_value_infos,
    drop_unread_indices,
    drop_unused_import,
    name_nodes,
)
from poolgrad_lowering.ge.values import ValueTypes, value_types
from poolgrad_lowering.io.atomic_write import PathLike
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.io.model_file import require_model
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.lowering.lower import lower_in_place
from poolgrad_lowering.report.report import Report
from poolgrad_lowering.targets.table import DEFAULT_TARGET, Target, find_target

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Edits:
    """What the export changed after the lowering.

    `raised` nodes were brought to rank 5, `expanded` operators replaced by standard nodes, `rewritten` nodes got a form
    that GE reads, `indices_dropped` Indices outputs were taken off, `renamed` nodes got another name, and `inputs` are
    initializers that became graph inputs.
    """

    raised: int
    rewritten: int
    expanded: tuple[str, ...]
    indices_dropped: int
    renamed: int
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class AtcReport:
    """The report of an export: the lowering, the edits, what ATC cannot convert, and how to run ATC.

    `constant_inputs` are graph inputs that have a default: ATC makes constants of them.
    """

    lowering: Report
    edits: Edits
    obstacles: tuple[NodeObstacle, ...]
    constant_inputs: tuple[str, ...]
    conversion: Conversion

    @property
    def converts(self) -> bool:
        """Whether nothing is known that ATC's parser refuses or changes."""
        return all(found.is_weak for found in self.obstacles)

    def __repr__(self) -> str:
        return f"<AtcReport for {self.lowering.target}: {self._totals()}>"

    def _repr_html_(self) -> str:
        rows = [(found.node, found.operator, f"{found.code}: {found.reason}") for found in self.obstacles]
        return html_table(f"{self.lowering.target}: {self._totals()}", ("node", "operator", "obstacle"), rows)

    def _totals(self) -> str:
        return f"{counted(len(self.obstacles), 'obstacle')}, {counted(self.edits.raised, 'node')} brought to rank 5"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data with the keys of the JSON report."""
        return {
            "schema_version": SCHEMA_VERSION,
            "converts": self.converts,
            "obstacles": [obstacle.to_dict() for obstacle in self.obstacles],
            "edits": asdict(self.edits),
            "constant_inputs": list(self.constant_inputs),
            "conversion": asdict(self.conversion),
            "lowering": self.lowering.to_dict(),
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class AtcExport:
    """An exported model and its report."""

    model: ModelProto
    report: AtcReport

    def __repr__(self) -> str:
        return f"<AtcExport: {self.report!r}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def export_atc(
    model: ModelProto,
    *,
    target: str | None = None,
    weights_as_inputs: Sequence[str] = (),
    base_dir: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AtcExport:
    """Lower a model if it is not lowered yet, and export it for ATC, CANN's offline converter.

    `target` is a product or SoC name; the default is atlas-a2. The initializers whose names match one of
    `weights_as_inputs` (names or globs) become graph inputs, so that they are not constants of the converted model.
    `base_dir` is the folder of the model's external data. The argument is not modified. The result has a model even if
    ATC cannot convert it; `report.obstacles` then says why, node by node.

    Raises `TypeError` for a path, `UnknownTargetError`, `InvalidModelError`, and `UsageError` for a pattern that
    matches no initializer.
    """
    require_model(model)
    exported = ModelProto()
    exported.CopyFrom(model)
    gate = Gate(limits, None if base_dir is None else ModelFolder(Path(base_dir)))
    bytes_before = len(gate.serialised(exported))
    report = export_in_place(exported, target, weights_as_inputs, gate=gate, bytes_before=bytes_before)
    return AtcExport(exported, report)


def export_in_place(
    model: ModelProto,
    target: str | None,
    weights_as_inputs: Sequence[str],
    *,
    gate: Gate,
    bytes_before: int,
    file: str = "model.onnx",
) -> AtcReport:
    """As `export_atc`, but modifies the model. `bytes_before` is its size, `file` the path that ATC will read."""
    found = find_target(DEFAULT_TARGET if target is None else target)
    outcome = lower_in_place(model, found, forward=True, gate=gate)
    lowering = outcome.report(bytes_before, len(gate.serialised(model)) if outcome.changed else bytes_before)
    edits, obstacles = export_lowered(model, found, weights_as_inputs, gate)
    return AtcReport(
        lowering=lowering,
        edits=edits,
        obstacles=obstacles,
        constant_inputs=tuple(defaults(model)),
        conversion=conversion(model, found, _exact_name(found, target), file),
    )


def export_lowered(
    model: ModelProto, target: Target, weights_as_inputs: Sequence[str], gate: Gate
) -> tuple[Edits, tuple[NodeObstacle, ...]]:
    """Edit a lowered model for ATC; return the edits and the obstacles that are left.

    Raises `InvalidModelError` and `UsageError`.
    """
    expanded = expand_operators(model)
    types = value_types(model, gate.index(model), ExternalData(gate.folder, gate.limits))
    inputs = make_inputs(model, weights_as_inputs)
    raised, rewritten, dropped = _convert(model, types)
    drop_stale_value_infos(model)
    declare_results(model, types)
    if expanded:
        drop_unused_import(model)
    renamed = name_nodes(model)
    edits = Edits(raised, rewritten, tuple(expanded), dropped, renamed, tuple(inputs))
    return edits, tuple(find_obstacles(model, target, types))


def remaining_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles that `export_lowered` would leave, for a model after `expand_operators`.

    Makes only the edits on which obstacles depend. `types` learns the new values.
    """
    _convert(model, types)
    return list(find_obstacles(model, target, types))


def _convert(model: ModelProto, types: ValueTypes) -> tuple[int, int, int]:
    """Write nodes in forms that ATC takes; return the numbers of raised, rewritten and dropped ones."""
    dropped = drop_unread_indices(model)
    rewritten = write_forms(model, opset_of(model), types)
    return raise_ranks(model, opset_of(model), types), rewritten, dropped


def _exact_name(target: Target, name: str | None) -> str | None:
    """Return the SoC name with its case, None if a product was named."""
    return next((soc for soc in target.socs if name is not None and soc.lower() == name.lower()), None)
