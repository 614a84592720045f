# SPDX-License-Identifier: Apache-2.0

"""The page on training: what its Python blocks say works, one after the other, as a reader runs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from models.ort_nets import forward
from tests.training.training_runs import CLASSES, IMAGES, NET, SEED

pytestmark = pytest.mark.training

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_blocks_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifacts").mkdir()
    model = forward(NET, SEED)
    onnx.save(model, "forward.onnx")
    random = np.random.default_rng(SEED)
    batches = [(random.standard_normal(IMAGES, np.float32), random.integers(0, CLASSES, IMAGES[0])) for _ in range(2)]
    names: dict[str, Any] = {"batches": batches}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert np.isfinite(names["loss"])
    untrained = {weight.name: onnx.numpy_helper.to_array(weight) for weight in model.graph.initializer}
    assert names["weights"].keys() == untrained.keys()
    for name, weight in untrained.items():
        assert not np.array_equal(names["weights"][name], weight)
