# SPDX-License-Identifier: Apache-2.0

"""Finds ATC on this machine, and the parser plugin that ATC needs for the operators of domain `npu`.

ATC loads every library below the folder `framework` of each folder in ASCEND_CUSTOM_OPP_PATH, and of each vendor in
ASCEND_OPP_PATH. No library is loaded here: a plugin is recognised by how the keys of its operators begin.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_KEY = b"npu::1::"
_LARGEST = 1 << 26
"""Bytes of a library that is searched; plugins are far smaller."""

Finding = tuple[str | None, str | None]
"""What was found, and what is wrong; None for nothing."""


def find_atc() -> Finding:
    """Return the path of ATC."""
    found = shutil.which("atc")
    if found is not None:
        return found, None
    if home := os.environ.get("ASCEND_HOME_PATH"):
        return None, f"not on PATH; the toolkit in {home} may lack it, or its set_env.sh was not sourced in this shell"
    return None, "not on PATH; it is part of the CANN toolkit, whose set_env.sh sets PATH"


def find_plugin() -> Finding:
    """Return the path of the first library with the operators of domain `npu` that ATC would load."""
    folders = list(_folders())
    for folder in folders:
        for library in sorted(folder.rglob("*.so")):
            if _registers_operators(library):
                return str(library), None
    how = "run `poolgrad export-atc --plugin DIR` and put DIR into ASCEND_CUSTOM_OPP_PATH"
    if not folders:
        return None, f"ATC would load no plugin, since no folder of ASCEND_CUSTOM_OPP_PATH has 'framework' in it; {how}"
    return None, f"no library in {', '.join(map(str, folders))} registers the operators; {how}"


def _folders() -> Iterator[Path]:
    """Yield the existing `framework` folders in the order in which ATC loads them."""
    custom = [Path(text) for text in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if text]
    opp = os.environ.get("ASCEND_OPP_PATH")
    vendors = [Path(opp) / "vendors" / name for name in _vendors(Path(opp))] if opp else []
    for folder in (*custom, *vendors):
        if (folder / "framework").is_dir():
            yield folder / "framework"


def _vendors(opp: Path) -> list[str]:
    """Return the vendors of `vendors/config.ini`, whose line is `load_priority=first,second`."""
    try:
        lines = (opp / "vendors" / "config.ini").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    [_, _, names] = next((line.partition("=") for line in lines if line.startswith("load_priority=")), ("", "", ""))
    return [name.strip() for name in names.split(",") if name.strip()]


def _registers_operators(library: Path) -> bool:
    try:
        return library.stat().st_size <= _LARGEST and _KEY in library.read_bytes()
    except OSError:
        return False
