# SPDX-License-Identifier: Apache-2.0

"""The runtime: registers the execution provider with onnxruntime and creates sessions on it.

Importing this package imports neither onnxruntime nor the compiler; the first function that needs onnxruntime imports
it. The provider is written in C++ (`src/`) and installed in this package as a shared library.
"""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.errors import LibraryMissingError, OnnxRuntimeMissingError, SessionError
from poolgrad_lowering.runtime.assignment import AssignedNode, assignment, crossings
from poolgrad_lowering.runtime.library import (
    get_ep_name,
    get_ep_names,
    get_host_library_path,
    get_library_path,
    register,
)
from poolgrad_lowering.runtime.session import create_session, get_backend
from poolgrad_lowering.runtime.training_loop import TrainingLoop

__all__ = [
    "AssignedNode",
    "LibraryMissingError",
    "OnnxRuntimeMissingError",
    "SessionError",
    "TrainingLoop",
    "assignment",
    "create_session",
    "crossings",
    "get_backend",
    "get_ep_name",
    "get_ep_names",
    "get_host_library_path",
    "get_library_path",
    "register",
]
