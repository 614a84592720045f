# SPDX-License-Identifier: Apache-2.0

"""The lines on a terminal about an export that takes its time."""

from __future__ import annotations

import io
import sys
import time

import pytest

from poolgrad_lowering.torch import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("terminal", "written"), [
    (Terminal(), "export: first …\nexport: second …\n"), (io.StringIO(), ""),
])  # fmt: skip
def test_lines(terminal: io.StringIO, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    with progress.Progress("export") as found:
        found.part("first")
        time.sleep(0.5)
        found.part("second")
    assert terminal.getvalue() == written


def test_a_short_work_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.Progress("export") as found:
        found.part("first")
    assert not terminal.getvalue()
