# SPDX-License-Identifier: Apache-2.0

"""Training with onnxruntime on lowered graphs: session options with the operators of domain `npu`.

onnxruntime-training has no plugin execution providers, so the same library provides the operators as custom operators.
This module does not use the provider; it imports `onnxruntime.training` when it is needed.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from poolgrad_lowering.model.diagnostics.errors import OnnxRuntimeMissingError, SessionError
from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.runtime.library import get_library_path
from poolgrad_lowering.runtime.session import BACKEND_ENTRY

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["session_options"]


def session_options(
    *, backend: str = "auto", options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.SessionOptions:
    """Return session options for `onnxruntime.training.api.Module`, with the operators of domain `npu` as custom ops.

    Args:
        backend: "cann" for the NPU, "host" for the CPU, "auto" for the NPU if there is one, else the CPU.
        options: options without these operators, to which they are added; new ones if None.

    Raises:
        OnnxRuntimeMissingError: the installed onnxruntime cannot train.
        LibraryMissingError: the library of the operators is not installed.
        SessionError: onnxruntime does not accept the operators, or the backend is unknown or missing.
    """
    ort = _import_training_onnxruntime()
    library = get_library_path()
    extended = options if options is not None else ort.SessionOptions()
    extended.add_session_config_entry(BACKEND_ENTRY, backend)
    try:
        extended.register_custom_ops_library(library)
    except Exception as error:
        raise SessionError(f"onnxruntime does not take the operators of {library}: {quoted(error)}") from error
    return extended


def _import_training_onnxruntime() -> ModuleType:
    try:
        import onnxruntime  # noqa: PLC0415 - optional
        import onnxruntime.training.api  # noqa: PLC0415
    except ImportError as error:
        raise OnnxRuntimeMissingError(
            f"onnxruntime cannot train here ({error}); in an environment without another onnxruntime: "
            "pip install onnxruntime-training-cpu==1.19.2 'numpy<2' torch"
        ) from error
    module: ModuleType = onnxruntime
    return module
