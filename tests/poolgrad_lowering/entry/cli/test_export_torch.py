# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-torch` before it needs PyTorch: its arguments, and what it says without PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from poolgrad_lowering.entry.cli import main


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("poolgrad_lowering.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("no_torch")
def test_without_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    assert main(["export-torch", f"{__file__}:test_without_torch", "-o", str(out)]) == 2
    assert "pip install 'poolgrad-lowering[torch]'" in capsys.readouterr().err
    assert not out.exists()
