# SPDX-License-Identifier: Apache-2.0

"""The CI's stages and the targets of `make` are sessions of noxfile.py; every source file names the licence."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SESSIONS = set(re.findall(r'^    "([\w.-]+)": \w+\(', (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE))
TARGETS = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def ci(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / ".ci" / "run", *words], capture_output=True, text=True, check=False)


def test_every_stage_is_a_session() -> None:
    named = {"sanitizers", "oldest-onnxruntime"}
    assert {"test", "asan", "ort-1.23.2"} <= SESSIONS
    assert set(ci("--list").stdout.split()) - named <= SESSIONS


def test_an_unknown_stage() -> None:
    found = ci("check", "nothing")
    assert found.returncode == 2
    assert found.stderr.startswith("there is no stage 'nothing'; the stages are: check test docs ")


def test_there_are_the_targets_that_are_named() -> None:
    files = [ROOT / "pyproject.toml", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.py")]
    called = {name for file in files for name in re.findall(r"`make ([a-z][\w-]*)", file.read_text(encoding="utf-8"))}
    assert {"check", "test-atc"} <= called
    assert called <= TARGETS | {f"test-{session}" for session in SESSIONS}


def test_there_are_about_twenty_targets() -> None:
    assert len(TARGETS) <= 22


TAG = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = ("poolgrad_lowering", "patterns", "runtime", "tests", "models", "benchmarks", "docs", "tools", "examples")
SOURCES = {".py", ".cpp", ".h", ".css", ".js", ".sh"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_sources_name_the_licence(folder: str) -> None:
    sources = [path for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES and path.stat().st_size]
    assert sources
    assert [str(path) for path in sources if TAG not in path.read_text(encoding="utf-8")[:100]] == []
