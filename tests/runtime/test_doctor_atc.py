# SPDX-License-Identifier: Apache-2.0

"""`poolgrad doctor` finds ATC, and the library that teaches ATC the operators of domain npu."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.runtime.atc import find_atc, find_plugin

KEY = b"\x7fELF...npu::1::MaxPool3DGradWithArgmax\x00"


@pytest.fixture(autouse=True)
def without_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"):
        monkeypatch.delenv(name, raising=False)


def library(folder: Path, content: bytes = KEY, name: str = "framework/onnx/libany.so") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_no_atc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_atc() == (None, "not on PATH; it is part of the CANN toolkit, whose set_env.sh sets PATH")
    monkeypatch.setenv("ASCEND_HOME_PATH", "/cann")
    found, problem = find_atc()
    assert found is None
    assert "/cann" in str(problem)


def test_atc_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "atc"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_atc() == (str(program), None)


def test_a_plugin_at_any_depth_in_any_of_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    library(empty, b"another plugin")
    expected = library(full, name="framework/a/b/c.so")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path / 'absent'}:{empty}:{full}:")
    assert find_plugin() == (str(expected), None)


def test_a_plugin_of_a_vendor_comes_after_those_of_custom_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opp = tmp_path / "opp"
    vendor = library(opp / "vendors" / "b")
    library(opp / "vendors" / "unlisted")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(opp))
    assert find_plugin()[0] is None
    (opp / "vendors" / "config.ini").write_text("load_priority=a, b\n")
    assert find_plugin() == (str(vendor), None)
    custom = library(tmp_path / "custom")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path / "custom"))
    assert find_plugin() == (str(custom), None)


def test_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no folder of ASCEND_CUSTOM_OPP_PATH has 'framework' in it" in str(find_plugin()[1])
    library(tmp_path, b"another plugin")
    library(tmp_path, KEY, "framework/readme.txt")
    library(tmp_path, KEY, "elsewhere/libany.so")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path))
    found, problem = find_plugin()
    assert found is None
    assert str(problem).startswith(
        f"no library in {tmp_path / 'framework'} registers the operators; run `poolgrad export-atc"
    )


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = library(tmp_path)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["atc_plugin"] == {"found": str(expected), "problem": None}
    assert report["atc"]["found"] is None
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"ATC, for offline conversion: none: {report['atc']['problem']}",
        f"ATC's plugin for domain npu: {expected}",
    ]
