"""Lowers max-pooling gradients in ONNX training graphs to Ascend NPU operators.

`lower(model)` and `lower_file(source, destination)` are the compiler; `poolgrad_lowering.runtime` runs the result in
onnxruntime. Names are loaded when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolgrad_lowering.errors import FileError, InvalidModelError, PoolgradError, UnknownTargetError
    from poolgrad_lowering.files import lower_file
    from poolgrad_lowering.lowering import LoweringResult, inspect, lower
    from poolgrad_lowering.report import AnchorReport, Report

__version__ = "0.1.0"

_HOMES = {
    "AnchorReport": "report",
    "FileError": "errors",
    "InvalidModelError": "errors",
    "LoweringResult": "lowering",
    "PoolgradError": "errors",
    "Report": "report",
    "UnknownTargetError": "errors",
    "inspect": "lowering",
    "lower": "lowering",
    "lower_file": "files",
}

__all__ = [
    "AnchorReport",
    "FileError",
    "InvalidModelError",
    "LoweringResult",
    "PoolgradError",
    "Report",
    "UnknownTargetError",
    "__version__",
    "inspect",
    "lower",
    "lower_file",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
