"""Lowers max-pooling gradients in ONNX training graphs to Ascend NPU operators.

`lower(model)` and `lower_file(source, destination)` are the compiler; `verify(original, lowered)` checks its work from
the two models alone; `poolgrad_lowering.runtime` runs the result in onnxruntime. Names are loaded when first used, so
that importing the package costs next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolgrad_lowering.artifacts import lower_artifacts
    from poolgrad_lowering.errors import (
        FileError,
        InvalidModelError,
        PlanError,
        PoolgradError,
        UnknownTargetError,
        VerificationError,
    )
    from poolgrad_lowering.files import lower_file
    from poolgrad_lowering.folders import FileResult, lower_folder
    from poolgrad_lowering.gate.faults import Fault
    from poolgrad_lowering.gate.limits import Limits
    from poolgrad_lowering.lowering import LoweringResult, inspect, lower
    from poolgrad_lowering.lowering_plan import LoweringPlan, SiteChoice
    from poolgrad_lowering.plan_file import read_plan
    from poolgrad_lowering.report import AnchorReport, DataWarning, Report
    from poolgrad_lowering.verification.files import verify_files
    from poolgrad_lowering.verification.result import Verification
    from poolgrad_lowering.verification.verifier import verify

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # what becomes of the log is up to the program

_HOMES = {
    "AnchorReport": "report",
    "DataWarning": "report",
    "Fault": "gate.faults",
    "FileError": "errors",
    "FileResult": "folders",
    "InvalidModelError": "errors",
    "Limits": "gate.limits",
    "LoweringPlan": "lowering_plan",
    "LoweringResult": "lowering",
    "PlanError": "errors",
    "PoolgradError": "errors",
    "Report": "report",
    "SiteChoice": "lowering_plan",
    "UnknownTargetError": "errors",
    "Verification": "verification.result",
    "VerificationError": "errors",
    "inspect": "lowering",
    "lower": "lowering",
    "lower_artifacts": "artifacts",
    "lower_file": "files",
    "lower_folder": "folders",
    "read_plan": "plan_file",
    "verify": "verification.verifier",
    "verify_files": "verification.files",
}

__all__ = [
    "AnchorReport",
    "DataWarning",
    "Fault",
    "FileError",
    "FileResult",
    "InvalidModelError",
    "Limits",
    "LoweringPlan",
    "LoweringResult",
    "PlanError",
    "PoolgradError",
    "Report",
    "SiteChoice",
    "UnknownTargetError",
    "Verification",
    "VerificationError",
    "__version__",
    "inspect",
    "lower",
    "lower_artifacts",
    "lower_file",
    "lower_folder",
    "read_plan",
    "verify",
    "verify_files",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
