# SPDX-License-Identifier: Apache-2.0

"""The folders of the root that hold Python are packages, which nothing beside the clone can hide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "docs", "models", "tests", "tools")


def test_no_folder_is_forgotten() -> None:
    """Those in `examples` are run, not imported."""
    with_python = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert with_python - {"build", "dist", "examples"} == {*FOLDERS, "patterns", "poolgrad_lowering", "runtime"}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_module_in_a_later_entry_of_the_path_hides_no_folder(name: str, tmp_path: Path) -> None:
    """scikit-build's editable installation adds the folder above the clone to `sys.path`."""
    (tmp_path / f"{name}.py").touch()
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(tmp_path)]}; import {name}; print({name}.__path__[0])"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(ROOT / name), "")
