# SPDX-License-Identifier: Apache-2.0

"""The shared libraries of this package: their paths, the provider's name, and its registration with onnxruntime."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from poolgrad_lowering.model.diagnostics.errors import LibraryMissingError, SessionError
from poolgrad_lowering.model.io.onnxruntime import import_onnxruntime, quoted

_lock = threading.Lock()

_EP_NAME = "AclnnExecutionProvider"

_ON_LINUX = (
    "`pip install --force-reinstall --no-deps poolgrad-lowering` takes the wheel with the libraries where glibc is "
    "2.34 or newer, on x86-64 and 64-bit Arm; elsewhere add `--no-binary poolgrad-lowering`, which builds them and "
    "needs a C++ compiler and make"
)
_ELSEWHERE = "they run on Linux only; lower models here and run them there"


def get_library_path() -> str:
    """Return the path of the execution provider's library, for `register_execution_provider_library`.

    Raises `LibraryMissingError` if this installation has no native libraries.
    """
    return _find("libpoolgrad_ep.so")


def get_host_library_path() -> str:
    """Return the path of the CPU implementation of the aclnn C ABI, which the provider loads itself.

    Raises `LibraryMissingError` if this installation has no native libraries.
    """
    return _find("libaclnn_host.so")


def get_ep_name() -> str:
    """Return the name of the execution provider."""
    return _EP_NAME


def get_ep_names() -> list[str]:
    """Return the names of all execution providers in the library, which has one."""
    return [_EP_NAME]


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


def _find(name: str) -> str:
    # An editable install has the sources in one folder of the package and the built libraries in another.
    folders = [Path(folder) for folder in sys.modules[__name__.rpartition(".")[0]].__path__]
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    places = ", ".join(map(str, folders))
    advice = _ON_LINUX if sys.platform == "linux" else _ELSEWHERE
    raise LibraryMissingError(
        f"{name} is not in {places}: this installation has the compiler without the native libraries; {advice}"
    )
