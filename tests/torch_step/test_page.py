# SPDX-License-Identifier: Apache-2.0

"""The page on PyTorch: its Python blocks run, one after the other, as a reader runs them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.doc_blocks import ROOT, blocks


def test_blocks_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [block for block in blocks(ROOT / "docs" / "from-pytorch.md") if block.kind == "python"]
    assert len(found) == 10
    assert {block.not_run for block in found} == {"needs PyTorch"}
    monkeypatch.chdir(tmp_path)  # a block writes a checkpoint
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in found:
        if "torch.load" in block.text:
            before = {**names, "values": names["loop"].values()}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile("\n" * block.line + block.text, "from-pytorch.md", "exec"), names)
        if "torch.load" in block.text:
            assert_resumed(before, names)
    assert names["loss"] < 0.5  # of 2.3 for a guess
    assert names["scores"].shape == (32, 10)
    assert names["scale"] == 2**16
    exec(found[-1].text.replace("2.0**16", "2.0**40"), names)  # gradients of every step overflow
    assert names["scale"] == 2**36
    names["step"].check()  # clipped


def assert_resumed(before: dict[str, Any], names: dict[str, Any]) -> None:
    """The next steps have the bits of a loop that goes on."""
    after = names["loop"].values()
    assert after.keys() == before["values"].keys()
    assert all(np.array_equal(value, after[name]) for name, value in before["values"].items())
    again = type(names["loop"])(names["create_session"](names["lower"](names["step"].model).model), after)
    inputs = {"input": names["images"], "target": names["digits"], "learning_rate": 0.05}
    for _ in range(2):
        assert before["loop"].step(**inputs)["loss"] == again.step(**inputs)["loss"]


def test_the_reference_is_up_to_date() -> None:
    from docs import torch_reference

    assert torch_reference.FILE.read_text(encoding="utf-8") == torch_reference.text(), torch_reference.__doc__
