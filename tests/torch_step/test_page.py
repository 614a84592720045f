# SPDX-License-Identifier: Apache-2.0

"""The page on PyTorch: its Python blocks run, one after the other, as a reader runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.doc_blocks import ROOT, blocks

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


def test_blocks_of_the_page() -> None:
    found = [block for block in blocks(ROOT / "docs" / "from-pytorch.md") if block.kind == "python"]
    assert len(found) == 4
    assert {block.not_run for block in found} == {"needs PyTorch"}
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in found:
        exec(compile("\n" * block.line + block.text, "from-pytorch.md", "exec"), names)
    assert names["loss"] < 0.5  # of 2.3 for a guess
    assert all(
        np.array_equal(value.detach(), names["loop"].values()["weight." + name])
        for name, value in names["model"].named_parameters()
    )
