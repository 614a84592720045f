# SPDX-License-Identifier: Apache-2.0

"""The page on onnxruntime's own calls: its Python in a new process, and its C++ program, which fails loudly."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering import lower_file
from poolgrad_lowering.runtime import get_host_library_path, get_library_path
from tests.doc_blocks import ROOT, blocks
from tests.harness.onnxruntime.release import lay_out
from tests.harness.processes import environment

PAGE = ROOT / "docs" / "from-python-cpp-csharp.md"
LENET = ROOT / "models" / "built" / "torch" / "lenet.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the page's Python has run, in a new process, and its program was compiled by its command."""
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("plain_calls")
    shutil.copy(ROOT / "docs" / "examples" / "run_lowered.cpp", folder)
    lay_out(folder / "onnxruntime")
    lower_file(LENET, folder / "lowered.onnx")
    page = blocks(PAGE)
    python = "".join(block.text for block in page if block.kind == "python")
    subprocess.run([sys.executable, "-c", python], cwd=folder, env=environment(), check=True)
    [compile_] = [line for block in page for line in block.commands if line.startswith("g++")]
    subprocess.run(compile_, shell=True, cwd=folder, check=True)
    return folder


def run(folder: Path, model: str, library: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "run_lowered", folder / model, library], capture_output=True, text=True, check=False
    )


def test_the_program_computes_the_gradient(folder: Path) -> None:
    done = run(folder, "pools.onnx", get_library_path())
    assert (done.returncode, done.stdout) == (0, "0 0 0 0\n0 1 0 2\n0 0 0 0\n0 3 0 4\n"), done.stderr


@pytest.mark.parametrize(
    ("model", "library", "message"),
    [
        ("pools.onnx", "/no/library.so", "Failed to load library"),
        ("pools.onnx", get_host_library_path(), "CreateEpFactories"),
        ("lowered.onnx", get_library_path(), "fallback to CPU EP has been explicitly disabled"),
        ("none.onnx", get_library_path(), "none.onnx"),
    ],
    ids=["no library", "no provider", "nodes of others", "no model"],
)
def test_the_program_fails_loudly(folder: Path, model: str, library: str, message: str) -> None:
    done = run(folder, model, library)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
