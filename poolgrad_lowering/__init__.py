"""Lowers max-pooling gradients in ONNX training graphs to Ascend NPU operators.

`lower(model)` and `lower_file(source, destination)` are the compiler; `verify(original, lowered)` checks its work from
the two models alone; `poolgrad_lowering.runtime` runs the result in onnxruntime. Names are loaded when first used, so
that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolgrad_lowering.errors import (
        FileError,
        InvalidModelError,
        PoolgradError,
        UnknownTargetError,
        VerificationError,
    )
    from poolgrad_lowering.files import lower_file
    from poolgrad_lowering.gate.faults import Fault
    from poolgrad_lowering.gate.limits import Limits
    from poolgrad_lowering.lowering import LoweringResult, inspect, lower
    from poolgrad_lowering.report import AnchorReport, Report
    from poolgrad_lowering.verification.files import verify_files
    from poolgrad_lowering.verification.result import Verification
    from poolgrad_lowering.verification.verifier import verify

__version__ = "0.1.0"

_HOMES = {
    "AnchorReport": "report",
    "Fault": "gate.faults",
    "FileError": "errors",
    "InvalidModelError": "errors",
    "Limits": "gate.limits",
    "LoweringResult": "lowering",
    "PoolgradError": "errors",
    "Report": "report",
    "UnknownTargetError": "errors",
    "Verification": "verification.result",
    "VerificationError": "errors",
    "inspect": "lowering",
    "lower": "lowering",
    "lower_file": "files",
    "verify": "verification.verifier",
    "verify_files": "verification.files",
}

__all__ = [
    "AnchorReport",
    "Fault",
    "FileError",
    "InvalidModelError",
    "Limits",
    "LoweringResult",
    "PoolgradError",
    "Report",
    "UnknownTargetError",
    "Verification",
    "VerificationError",
    "__version__",
    "inspect",
    "lower",
    "lower_file",
    "verify",
    "verify_files",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
