"""Where the shared libraries of this package are, and what the execution provider is called."""

from __future__ import annotations

from pathlib import Path

import poolgrad_lowering.runtime
from poolgrad_lowering.runtime.errors import LibraryMissingError

_EP_NAME = "AclnnExecutionProvider"


def get_library_path() -> str:
    """Return the path of the execution provider's library, for `register_execution_provider_library`.

    Raises `LibraryMissingError` if the package was not built.
    """
    return _find("libpoolgrad_ep.so")


def get_host_library_path() -> str:
    """Return the path of the CPU implementation of the aclnn C ABI, which the provider opens by itself.

    Raises `LibraryMissingError` if the package was not built.
    """
    return _find("libaclnn_host.so")


def get_ep_name() -> str:
    """Return the name of the execution provider."""
    return _EP_NAME


def get_ep_names() -> list[str]:
    """Return the names of all execution providers in the library: one."""
    return [_EP_NAME]


def _find(name: str) -> str:
    # An editable install keeps the sources in one folder of the package and the built libraries in another.
    folders = [Path(folder) for folder in poolgrad_lowering.runtime.__path__]
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    places = ", ".join(map(str, folders))
    raise LibraryMissingError(f"{name} is not in {places}; install poolgrad-lowering again with pip, which builds it")
