# SPDX-License-Identifier: Apache-2.0

"""Compiles the C++ parts of the benchmarks."""

from __future__ import annotations

import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def compile_library(source: str, work: Path, *flags: str) -> Path:
    """The shared library of a source file in this folder, compiled into `work`. Raises `CalledProcessError`."""
    library = work / f"lib{Path(source).stem}.so"
    common = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *common, str(FOLDER / source), *flags, "-o", str(library)], check=True)
    return library
