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
_ALL = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
BLOCKS = [block for block in _ALL if "create_session" not in block and "write_checkpoint" not in block]
"""The export, the artifacts, their lowering, the training, and the operators alone; the step is for other releases."""


def with_a_stored_shape(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a Reshape before its first node: as exporters write them, with an initializer of int64."""
    [image] = [value.name for value in model.graph.input if value.name in model.graph.node[0].input]
    first = model.graph.node[0]
    first.input[list(first.input).index(image)] = "image"
    model.graph.node.insert(0, onnx.helper.make_node("Reshape", [image, "image_shape"], ["image"], name="reshape"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(IMAGES, np.int64), "image_shape"))
    return model


def run(blocks: list[str], images: tuple[int, ...], classes: int) -> dict[str, Any]:
    """Run the blocks with random batches, and return the names that they leave."""
    random = np.random.default_rng(SEED)
    batches = [(random.standard_normal(images, np.float32), random.integers(0, classes, images[0])) for _ in range(2)]
    names: dict[str, Any] = {"batches": batches}
    for block in blocks:
        exec(block, names)
    return names


def check(names: dict[str, Any]) -> None:
    """Require that each float initializer of forward.onnx was trained, except running statistics."""
    assert np.isfinite(names["loss"])
    initializers = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in names["model"].graph.initializer}
    untrained = {name: array for name, array in initializers.items() if array.dtype == np.float32}
    assert names["weights"].keys() == {name for name in untrained if "running" not in name}
    for name, weight in names["weights"].items():
        assert not np.array_equal(weight, untrained[name])


def test_blocks_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(BLOCKS, (32, 1, 16, 16), 5)
    check(names)
    assert {node.op_type for node in names["model"].graph.node} >= {"BatchNormalization", "Dropout", "MaxPool"}
    assert len(names["report"].lowered) == 1


def test_artifacts_of_a_model_with_a_stored_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(with_a_stored_shape(forward(NET, SEED)), "forward.onnx")
    check(run(BLOCKS[1:4], IMAGES, CLASSES))
