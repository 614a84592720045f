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


def with_a_stored_shape(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a Reshape before its first node: as exporters write them, with an initializer of int64."""
    [image] = [value.name for value in model.graph.input if value.name in model.graph.node[0].input]
    first = model.graph.node[0]
    first.input[list(first.input).index(image)] = "image"
    model.graph.node.insert(0, onnx.helper.make_node("Reshape", [image, "image_shape"], ["image"], name="reshape"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(IMAGES, np.int64), "image_shape"))
    return model


def test_blocks_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = with_a_stored_shape(forward(NET, SEED))
    onnx.save(model, "forward.onnx")
    random = np.random.default_rng(SEED)
    batches = [(random.standard_normal(IMAGES, np.float32), random.integers(0, CLASSES, IMAGES[0])) for _ in range(2)]
    names: dict[str, Any] = {"batches": batches}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert np.isfinite(names["loss"])
    floats = [tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    untrained = {weight.name: onnx.numpy_helper.to_array(weight) for weight in floats}
    assert names["weights"].keys() == untrained.keys()
    for name, weight in untrained.items():
        assert not np.array_equal(names["weights"][name], weight)
