# SPDX-License-Identifier: Apache-2.0

"""Exports a model, an original or a lowered one, for CANN's graph engine: for ATC, or for onnxruntime's CANN provider.

The exported model still runs in onnxruntime, by function bodies or with the execution provider, with the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.entry.lower import copied, is_changed, lower_in_place
from poolgrad_lowering.ge.atc.conversion import Conversion, conversion
from poolgrad_lowering.ge.atc.prepare import Edits, defaults, prepare_for_atc
from poolgrad_lowering.ge.graph_mode import GraphModeEdits, prepare_for_graph_mode
from poolgrad_lowering.ge.registered import without_layout
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.model.diagnostics.text import counted, html_table
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.report.report import Report

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ExportReport:
    """The report of an export: the lowering, the edits, and what CANN's graph engine still refuses or changes."""

    lowering: Report
    edits: Edits | GraphModeEdits
    obstacles: tuple[NodeObstacle, ...]

    @property
    def converts(self) -> bool:
        """Whether nothing is known that CANN's graph engine refuses or changes."""
        return all(found.is_weak for found in self.obstacles)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data with the keys of the JSON report."""
        return {
            "schema_version": SCHEMA_VERSION,
            "converts": self.converts,
            "obstacles": [obstacle.to_dict() for obstacle in self.obstacles],
            "edits": self.edits._asdict(),
            **self._details(),
            "lowering": self.lowering.to_dict(),
        }

    def _details(self) -> dict[str, Any]:
        return {}

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class CannReport(ExportReport):
    """The report of an export for graph mode: the lowering, the edits, and the obstacles that are left."""

    edits: GraphModeEdits


@dataclass(frozen=True)
class AtcReport(ExportReport):
    """The report of an export: the lowering, the edits, what ATC cannot convert, and how to run ATC.

    `constant_inputs` are graph inputs that have a default: ATC makes constants of them.
    """

    edits: Edits
    constant_inputs: tuple[str, ...]
    conversion: Conversion

    def __repr__(self) -> str:
        return f"<AtcReport for {self.lowering.target}: {self._totals()}>"

    def _repr_html_(self) -> str:
        rows = [(found.node, found.operator, f"{found.code}: {found.reason}") for found in self.obstacles]
        return html_table(f"{self.lowering.target}: {self._totals()}", ("node", "operator", "obstacle"), rows)

    def _totals(self) -> str:
        return f"{counted(len(self.obstacles), 'obstacle')}, {counted(self.edits.raised, 'node')} brought to rank 5"

    def _details(self) -> dict[str, Any]:
        return {"constant_inputs": list(self.constant_inputs), "conversion": self.conversion._asdict()}


@dataclass(frozen=True)
class AtcExport:
    """An exported model and its report."""

    model: ModelProto
    report: AtcReport

    def __repr__(self) -> str:
        return f"<AtcExport: {self.report!r}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@dataclass(frozen=True)
class CannExport:
    """A model for a session beside onnxruntime's CANN provider, and its report."""

    model: ModelProto
    report: CannReport


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
    exported, gate, bytes_before = copied(model, base_dir, limits)
    report = export_in_place(exported, gate, bytes_before, target=target, weights_as_inputs=weights_as_inputs)
    return AtcExport(exported, report)


def export_cann(
    model: ModelProto,
    *,
    target: str | None = None,
    base_dir: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
    lower_onnx: bool = False,
) -> CannExport:
    """Lower a model if it is not lowered yet, and export it for a session beside onnxruntime's CANN provider.

    `runtime.create_session` does the same by itself; this is for sessions that are made in other ways. The model has
    the same inputs, outputs and results, and nodes in forms that CANN's graph engine reads. `target`, `base_dir` and
    `limits` are those of `lower`. The argument is not modified.

    Gradients that the model has in ONNX's own operators, such as a ConvTranspose with ones, stay: CANN's graph engine
    runs these inside of its parts, and a node of the dialect ends one. With `lower_onnx` they are lowered too.

    Raises `TypeError` for a path, `UnknownTargetError` and `InvalidModelError`.
    """
    exported, gate, bytes_before = copied(model, base_dir, limits)
    options = Options(target=target, keep_onnx=not lower_onnx)
    return CannExport(exported, export_cann_in_place(exported, gate, bytes_before, options=options))


def export_in_place(
    model: ModelProto,
    gate: Gate,
    size: int,
    *,
    target: str | None,
    weights_as_inputs: Sequence[str],
    file: str = "model.onnx",
) -> AtcReport:
    """As `export_atc`, but modifies the model. `size` is its size in bytes, `file` the path that ATC will read."""
    options = Options(target=target)
    found = options.product
    report = lower_in_place(model, replace(options, keep_onnx=without_layout(found)), gate)
    bytes_after = len(gate.serialised(model)) if is_changed(report) else size
    edits, obstacles = prepare_for_atc(model, found, weights_as_inputs, gate)
    soc = next((name for name in found.socs if target is not None and name.lower() == target.lower()), None)
    how = conversion(model, found, soc, file)
    lowering = report._replace(bytes_before=size, bytes_after=bytes_after)
    return AtcReport(lowering, edits, obstacles, tuple(defaults(model)), how)


def export_cann_in_place(model: ModelProto, gate: Gate, size: int, *, options: Options) -> CannReport:
    """As `export_cann`, but modifies the model; `size` is that of the model in bytes."""
    report = lower_in_place(model, options, gate)
    prepared = prepare_for_graph_mode(model, ExternalData(gate.folder, gate.limits), gate)
    lowering = report._replace(bytes_before=size, bytes_after=len(gate.serialised(model)))
    return CannReport(lowering, prepared.edits, prepared.obstacles)
