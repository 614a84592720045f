# SPDX-License-Identifier: Apache-2.0

"""`tools/environments.py` says in one line which Python an environment needs, and what takes minutes."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import environments


@pytest.fixture
def created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of environments that are created; nothing is installed."""
    folders: list[Path] = []
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "create", lambda folder, _: folders.append(folder))
    monkeypatch.setattr(environments, "pip", lambda *_: None)
    monkeypatch.setattr(environments, "versions_of_tests", lambda *_: [])
    return folders


def with_python(monkeypatch: pytest.MonkeyPatch, *version: int) -> None:
    found: Any = (*version, 0)
    monkeypatch.setattr(sys, "version_info", found)
    monkeypatch.setattr(platform, "python_version", lambda: ".".join(map(str, found)))


@pytest.mark.parametrize(
    ("name", "minor", "needed"),
    [
        ("test", 10, "3.11 or newer"),
        ("check", 10, "3.11 or newer"),
        ("torch-step", 10, "3.11 or newer"),
        ("asan", 10, "3.11 or newer"),
        ("cann", 10, "3.11 to 3.13"),
        ("cann", 14, "3.11 to 3.13"),
        ("training", 13, "3.10 to 3.12"),
    ],
)
def test_a_python_without_wheels_of_onnxruntime(
    name: str, minor: int, needed: str, created: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_python(monkeypatch, 3, minor)
    with pytest.raises(SystemExit, match=rf"needs Python {needed}, for which .* this is Python 3\.{minor}\.0") as error:
        environments.make(name)
    assert "\n" not in str(error.value)
    assert not created


@pytest.mark.parametrize(("name", "minor"), [("test", 11), ("test", 14), ("training", 10), ("docs", 10), ("fuzz", 14)])
def test_other_pythons(
    name: str, minor: int, created: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_python(monkeypatch, 3, minor)
    folder = tmp_path / environments.describe(name).folder
    folder.mkdir()
    environments.make(name)
    assert created == [folder]


@pytest.fixture
def installing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose Python needs a second, and fails if `fail` is installed."""
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "SECONDS_BETWEEN_LINES", 0.4)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nsleep 1\n[ "$6" != fail ]\n')
    python.chmod(0o755)
    return tmp_path / ".venv"


@pytest.mark.parametrize("arguments", [("--editable", ".[ort]", "--group", "test"), (".",), ("--group", "check")])
def test_progress_is_shown(arguments: tuple[str, ...], installing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environments.pip(installing, *arguments)
    out, err = capsys.readouterr()
    assert out == ""
    before, *between, after = err.splitlines()
    builds = "--group" not in arguments[:1]
    doing = "compiling the C++ libraries, about two minutes of CPU" if builds else "installing"
    assert before == f".venv: pip install {' '.join(arguments)}: {doing}"
    assert {re.sub(r"\d+ s$", "", line) for line in between} == {f".venv: {doing}, "}
    assert re.fullmatch(r"\.venv: installed in \d+ s", after)


def test_a_failed_installation_is_an_error(installing: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        environments.pip(installing, "fail")
