# SPDX-License-Identifier: Apache-2.0

"""CANN installations made from the host implementation, which has the same C ABI, and small libraries on top of it.

The libraries of an installation must be links to one file: each copy would be a library with state of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from poolgrad_lowering.runtime import get_host_library_path

LIBRARIES = ("libacl_rt.so", "libnnopbase.so", "libopapi_nn.so")


def install(home: Path, library: Path | str | None = None) -> Path:
    """Make `home` an ASCEND_HOME_PATH with all that is needed, each a link to `library`, and return it."""
    (home / "lib64").mkdir(parents=True)
    for name in LIBRARIES:
        (home / "lib64" / name).symlink_to(library or get_host_library_path())
    return home


def host_library_without(path: Path, *symbols: str) -> Path:
    """A copy of the host implementation in which these symbols are not found, because their names are changed."""
    data = Path(get_host_library_path()).read_bytes()
    for symbol in symbols:
        name = b"\0" + symbol.encode() + b"\0"
        assert name in data, symbol
        data = data.replace(name, name[:-2] + b"?\0")
    path.write_bytes(data)
    return path


def build_library(path: Path, source: str, *, over: Path | str | None = None) -> Path:
    """Compile C++ to a shared library. With `over`, it needs that library: a search for a symbol goes on there.

    Skips the test where there is no compiler.
    """
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    link = [] if over is None else [f"-Wl,--no-as-needed,-rpath,{Path(over).parent}", str(over)]
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-x", "none", *link, "-ldl", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def build_over_host(path: Path, source: str) -> Path:
    """The host implementation, with functions that the source adds or replaces, as one of CANN's libraries."""
    path.unlink(missing_ok=True)
    return build_library(path, source, over=get_host_library_path())
