# SPDX-License-Identifier: Apache-2.0

"""A hash of the files that something is made from, which says whether it has to be made again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("pyproject.toml",)
PLUGIN = "poolgrad_lowering/ge/atc/plugin/**/*"
NATIVE = (*PROJECT, "CMakeLists.txt", "cmake/*", "runtime/**/CMakeLists.txt", "runtime/src/**/*", PLUGIN)
SOURCES = (
    *NATIVE,
    "LICENSE",
    "README.md",
    "tools/registry_page.py",
    "poolgrad_lowering/**/*",
    "patterns/**/*",
    "runtime/**/*",
)
WHEEL = f"build/wheels/{platform.machine()}/*.whl"  # built by `tools/wheels.py`


def fingerprint(inputs: Iterable[str]) -> str:
    """Return a hash of the files that match globs relative to the root."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in inputs for path in ROOT.glob(pattern)}):
        if path.is_file() and path.parent.name != "__pycache__":
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()
