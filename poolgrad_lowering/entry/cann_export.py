# SPDX-License-Identifier: Apache-2.0

"""Exports a model in memory for a session beside onnxruntime's CANN provider, in graph mode."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.ge.graph_mode import GraphModeEdits, prepare_for_graph_mode
from poolgrad_lowering.io.atomic_write import PathLike
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.io.model_file import require_model
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.lowering.options import Options
from poolgrad_lowering.lowering.pipeline import lower_in_place
from poolgrad_lowering.report.report import Report


@dataclass(frozen=True)
class CannReport:
    """The report of an export for graph mode: the lowering, the edits, and the obstacles that are left."""

    lowering: Report
    edits: GraphModeEdits
    obstacles: tuple[NodeObstacle, ...]

    @property
    def converts(self) -> bool:
        """Whether nothing is known that CANN's graph engine refuses or changes."""
        return all(found.is_weak for found in self.obstacles)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data with the keys of the JSON report."""
        return {
            "schema_version": 1,
            "converts": self.converts,
            "obstacles": [obstacle.to_dict() for obstacle in self.obstacles],
            "edits": asdict(self.edits),
            "lowering": self.lowering.to_dict(),
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class CannExport:
    """A model for a session beside onnxruntime's CANN provider, and its report."""

    model: ModelProto
    report: CannReport


def export_cann(
    model: ModelProto, *, target: str | None = None, base_dir: PathLike | None = None, limits: Limits = DEFAULT_LIMITS
) -> CannExport:
    """Lower a model if it is not lowered yet, and export it for a session beside onnxruntime's CANN provider.

    `runtime.create_session` does the same by itself; this is for sessions that are made in other ways. The model has
    the same inputs, outputs and results, and nodes in forms that CANN's graph engine reads. `target`, `base_dir` and
    `limits` are those of `lower`. The argument is not modified.

    Raises `TypeError` for a path, `UnknownTargetError` and `InvalidModelError`.
    """
    require_model(model)
    exported = ModelProto()
    exported.CopyFrom(model)
    gate = Gate(limits, None if base_dir is None else ModelFolder(Path(base_dir)))
    report = export_cann_in_place(exported, target, gate, len(gate.serialised(exported)))
    return CannExport(exported, report)


def export_cann_in_place(model: ModelProto, target: str | None, gate: Gate, size: int) -> CannReport:
    """As `export_cann`, but modifies the model; `size` is that of the model in bytes."""
    outcome = lower_in_place(model, Options(target), gate)
    edits, obstacles = prepare_for_graph_mode(model, ExternalData(gate.folder, gate.limits), gate)
    return CannReport(outcome.report(size, len(gate.serialised(model))), edits, obstacles)
