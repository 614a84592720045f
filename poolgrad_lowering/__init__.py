# SPDX-License-Identifier: Apache-2.0

"""Lowers gradients of pools in ONNX training graphs to Ascend NPU operators.

`lower(model)` and `lower_file(source, destination)` are the compiler; `verify(original, lowered)` proves its result
from the two models alone; `poolgrad_lowering.runtime` runs the result in onnxruntime. Every name is imported on first
use, so that importing the package is fast.
"""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.model.diagnostics.version import __version__

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan, SiteChoice, read_plan
    from poolgrad_lowering.entry.artifacts import lower_artifacts
    from poolgrad_lowering.entry.export_files import export_atc_file, export_cann_file
    from poolgrad_lowering.entry.exports import AtcExport, AtcReport, CannExport, CannReport, export_atc, export_cann
    from poolgrad_lowering.entry.files import lower_file
    from poolgrad_lowering.entry.folders import lower_folder
    from poolgrad_lowering.entry.listing import OperatorRecord, PatternRecord, TargetRecord, list_patterns, list_targets
    from poolgrad_lowering.entry.lower import LoweringResult, inspect, lower
    from poolgrad_lowering.entry.standard_step import read_checkpoint, write_checkpoint
    from poolgrad_lowering.entry.verify import verify, verify_files
    from poolgrad_lowering.ge.atc.plugin_folder import AtcPlugin, write_atc_plugin
    from poolgrad_lowering.model.diagnostics.errors import (
        FileError,
        InvalidModelError,
        PlanError,
        PoolgradError,
        UnknownTargetError,
        VerificationError,
    )
    from poolgrad_lowering.model.diagnostics.faults import Fault
    from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle
    from poolgrad_lowering.model.io.external_files import DataWarning
    from poolgrad_lowering.model.io.limits import Limits
    from poolgrad_lowering.report.report import AnchorReport, FileResult, Report
    from poolgrad_lowering.verification.result import Verification

logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides where log records go

_FOLDER = Path(__file__).parent
if not (_FOLDER / "patterns").is_dir():  # a source tree has patterns/ and runtime/ beside this folder
    __path__.append(str(_FOLDER.parent))

_NAMES = {
    "model.io.external_files": ("DataWarning",),
    "model.diagnostics.errors": (
        "FileError",
        "InvalidModelError",
        "PlanError",
        "PoolgradError",
        "UnknownTargetError",
        "VerificationError",
    ),
    "model.diagnostics.faults": ("Fault",),
    "model.diagnostics.obstacles": ("NodeObstacle",),
    "entry.artifacts": ("lower_artifacts",),
    "entry.export_files": ("export_atc_file", "export_cann_file"),
    "entry.exports": ("AtcExport", "AtcReport", "CannExport", "CannReport", "export_atc", "export_cann"),
    "entry.files": ("lower_file",),
    "entry.folders": ("lower_folder",),
    "entry.listing": ("OperatorRecord", "PatternRecord", "TargetRecord", "list_patterns", "list_targets"),
    "entry.standard_step": ("read_checkpoint", "write_checkpoint"),
    "entry.verify": ("verify", "verify_files"),
    "ge.atc.plugin_folder": ("AtcPlugin", "write_atc_plugin"),
    "model.io.limits": ("Limits",),
    "entry.lower": ("LoweringResult", "inspect", "lower"),
    "compiler.lowering.plan": ("LoweringPlan", "SiteChoice", "read_plan"),
    "report.report": ("AnchorReport", "FileResult", "Report"),
    "verification.result": ("Verification",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "AnchorReport",
    "AtcExport",
    "AtcPlugin",
    "AtcReport",
    "CannExport",
    "CannReport",
    "DataWarning",
    "Fault",
    "FileError",
    "FileResult",
    "InvalidModelError",
    "Limits",
    "LoweringPlan",
    "LoweringResult",
    "NodeObstacle",
    "OperatorRecord",
    "PatternRecord",
    "PlanError",
    "PoolgradError",
    "Report",
    "SiteChoice",
    "TargetRecord",
    "UnknownTargetError",
    "Verification",
    "VerificationError",
    "__version__",
    "export_atc",
    "export_atc_file",
    "export_cann",
    "export_cann_file",
    "inspect",
    "list_patterns",
    "list_targets",
    "lower",
    "lower_artifacts",
    "lower_file",
    "lower_folder",
    "read_checkpoint",
    "read_plan",
    "verify",
    "verify_files",
    "write_atc_plugin",
    "write_checkpoint",
]


_MODULES = ("runtime", "torch")
"""The public modules, which are imported when they are first used."""


def __dir__() -> list[str]:
    return sorted((*__all__, *_MODULES))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
