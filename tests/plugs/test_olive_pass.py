# SPDX-License-Identifier: Apache-2.0

"""The pass for Olive, in runs of Olive itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from poolgrad_lowering import lower

pytestmark = pytest.mark.olive

BUILT = Path(__file__).parents[2] / "models" / "built"
LENET = BUILT / "torch" / "lenet.onnx"
MAX_POOL_GRAD = BUILT / "ort" / "lenet.onnx"  # needs no value of an initializer


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLIVE_DISABLE_TELEMETRY", "1")


def run(source: Path, folder: Path, passes: dict[str, Any]) -> onnx.ModelProto:
    """The model that Olive makes of a file."""
    from olive.workflows import run as run_workflow

    from poolgrad_lowering.entry.plugs.olive_pass import package_config

    workflow = {
        "input_model": {"type": "OnnxModel", "model_path": str(source)},
        "passes": passes,
        "output_dir": str(folder / "out"),
        "cache_dir": str(folder / "cache"),
        "evaluate_input_model": False,
    }
    run_workflow(workflow, package_config=package_config(), tempdir=str(folder))
    [made] = (folder / "out").rglob("*.onnx")
    return onnx.load(made)


@pytest.mark.parametrize("forward", [True, False])
def test_a_workflow_of_this_pass(tmp_path: Path, forward: bool) -> None:
    settings = {"type": "PoolGradLowering", "target": "atlas-a2", "forward": forward}
    made = run(LENET, tmp_path, {"npu": settings})
    expected = lower(onnx.load(LENET), target="atlas-a2", forward=forward).model
    assert made.SerializeToString() == expected.SerializeToString()


def test_external_data_follows_the_model(tmp_path: Path) -> None:
    weights = np.arange(1000, dtype=np.float32)
    model = onnx.load(MAX_POOL_GRAD)
    model.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "model.onnx"
    onnx.save(model, source, save_as_external_data=True, location="weights.bin")
    made = run(source, tmp_path, {"npu": {"type": "PoolGradLowering"}})
    assert "npu" in {node.domain for node in made.graph.node}
    np.testing.assert_array_equal(numpy_helper.to_array(made.graph.initializer[-1]), weights)


def test_beside_a_pass_of_olive(tmp_path: Path) -> None:
    made = run(LENET, tmp_path, {"npu": {"type": "PoolGradLowering"}, "meta": {"type": "OnnxIODataTypeConverter"}})
    assert {function.domain for function in made.functions} == {"npu"}


def test_an_unknown_target(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Ascend1"):
        run(LENET, tmp_path, {"npu": {"type": "PoolGradLowering", "target": "Ascend1"}})
