# SPDX-License-Identifier: Apache-2.0

"""The parts of the benchmarks that are C++, compiled where they are needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def compile_library(source: str, work: Path, *flags: str) -> Path:
    """Compile a file of this folder into `work`. Raises CalledProcessError, with what the compiler says shown."""
    library = work / f"lib{Path(source).stem}.so"
    common = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *common, str(FOLDER / source), *flags, "-o", str(library)], check=True)
    return library
