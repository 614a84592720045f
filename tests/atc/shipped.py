# SPDX-License-Identifier: Apache-2.0

"""Where the parser plugin that ships is found: beside the package, or in a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import poolgrad_lowering
from tests.harness.ge.compiling import NATIVE, ROOT

LIBRARY = "libpoolgrad_atc_plugin.so"


def _candidates() -> list[Path]:
    return [path for folder in poolgrad_lowering.__path__ if (path := Path(folder) / "ge" / "atc" / LIBRARY).is_file()]


def is_built() -> bool:
    """Return whether the library can be opened here."""
    return bool(_candidates() and NATIVE.compiler)


def shipped_library() -> Path:
    """Return the library of the installed package, or skip the test."""
    if not is_built():
        pytest.skip("the parser plugin is not built, or there is no C++ compiler for the stand-in")
    return _candidates()[0]


def library_of_wheel(machine: str, folder: Path) -> Path:
    """Return the library of the wheel for a machine, unpacked into a folder; skip where there is no plugin at all."""
    shipped_library()
    [wheel] = (ROOT / "build" / "wheels" / machine).glob(f"*_{machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"poolgrad_lowering/ge/atc/{LIBRARY}", folder))
