# SPDX-License-Identifier: Apache-2.0

"""Runs a program of `examples/` as a user runs a copy of this repository: in another folder, by its path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.harness.processes import environment

FOLDER = Path(__file__).parents[2] / "examples"


def run_example(name: str, folder: Path) -> list[str]:
    """Run the program in a folder, and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, FOLDER / name], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
