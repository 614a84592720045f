# SPDX-License-Identifier: Apache-2.0

"""The code blocks of the page on onnxruntime's CANN provider run unchanged."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import pytest

from poolgrad_lowering.runtime import get_ep_name
from tests.doc_blocks import ROOT, blocks
from tests.harness.sessions.mixed_sessions import CANN, on_device

pytestmark = pytest.mark.cann_ep


def run_page() -> list[str]:
    """The lines that the page's Python blocks print."""
    os.chdir(ROOT)
    names: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    found = [
        block
        for block in blocks(ROOT / "docs" / "with-onnxruntime-cann.md")
        if block.kind == "python" and "PyTorch" not in (block.not_run or "")
    ]
    assert found
    with contextlib.redirect_stdout(printed):
        for block in found:
            exec(compile(block.text, "page", "exec"), names)
    return printed.getvalue().splitlines()


def test_blocks_of_the_page() -> None:
    assert on_device(run_page) == [f"{get_ep_name()} True", f"{CANN} True", "CPUExecutionProvider False"]
