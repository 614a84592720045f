# SPDX-License-Identifier: Apache-2.0

"""Runs a session of `noxfile.py`, or a command in its environment, with nox and uv from an environment of their own.

    python3 tools/environments.py SESSION [COMMAND...]
    python3 tools/environments.py --list

Needs only Python's standard library and pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".nox" / "nox"
PACKAGES = ("nox>=2026.4", "uv>=0.9")


def make() -> None:
    """Create the environment of nox. `--without-pip` is needed because Debian's python3 has no ensurepip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", FOLDER], check=True)
    pip = [sys.executable, "-m", "pip", "--python", FOLDER / "bin" / "python", "install", "-qq"]
    subprocess.run([*pip, *PACKAGES], check=True)


def main(first: str = "--list", *command: str) -> None:
    """Replace this process with nox."""
    if not (FOLDER / "bin" / "nox").exists():
        make()
    # At the end, so that no session takes nox's Python for its own.
    path = f"{os.environ['PATH']}{os.pathsep}{FOLDER / 'bin'}"
    words = [first, *command] if first.startswith("-") else ["--session", first, *(("--", *command) if command else ())]
    nox = [FOLDER / "bin" / "nox", "--noxfile", ROOT / "noxfile.py", *words]
    os.execve(nox[0], nox, os.environ | {"PATH": path})


if __name__ == "__main__":
    main(*sys.argv[1:])
