# SPDX-License-Identifier: Apache-2.0

"""Registers the execution provider with onnxruntime."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.io.onnxruntime import import_onnxruntime, quoted
from poolgrad_lowering.runtime.library import get_ep_name, get_library_path

_lock = threading.Lock()


def register() -> None:
    """Register the execution provider with onnxruntime; a second call does nothing.

    The registration lasts as long as the process.

    Raises:
        LibraryMissingError: this installation has no native libraries.
        OnnxRuntimeMissingError: onnxruntime is not installed, or older than 1.24.1.
        SessionError: onnxruntime cannot register the library.
    """
    library = get_library_path()
    onnxruntime = import_onnxruntime()
    with _lock:
        if provider_devices(onnxruntime):
            return
        try:
            onnxruntime.register_execution_provider_library(get_ep_name(), library)
        except Exception as error:
            raise SessionError(f"onnxruntime cannot register {library}: {quoted(error)}") from error


def provider_devices(onnxruntime: ModuleType) -> list[Any]:
    """Return the `OrtEpDevice`s of the provider; empty before it is registered."""
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]
