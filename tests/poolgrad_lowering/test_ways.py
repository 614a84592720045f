# SPDX-License-Identifier: Apache-2.0

"""What `poolgrad inspect` says of the ways to run a model is what onnxruntime and the exporter say."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.cli import main
from poolgrad_lowering.entry.files import inspect_file
from tests.pool_graphs import parse, torch_gradient

BUILT = Path(__file__).parents[2] / "models" / "built"
FOLDERS = ("torch", "torch_legacy", "ort", "ort_module", "spellings")
MODELS = sorted(path for folder in FOLDERS for path in (BUILT / folder).glob("*.onnx"))


def found(path: Path) -> dict[str, str]:
    """The reason by way; empty for a way that works."""
    ways = inspect_file(path).ways
    assert [way.works for way in ways] == [not way.reason for way in ways]
    return {way.way: way.reason for way in ways}


def saved(tmp_path: Path, model: ModelProto) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_onnxruntime_runs_the_built_models_as_it_says(path: Path) -> None:
    lowered = lower(onnx.load(path)).model
    try:
        onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # of many classes
        message = str(error)
    else:
        message = ""
    reason = found(path)["bodies"]
    assert (not message) == (not reason), message
    if reason.startswith("onnxruntime has no"):
        assert "is not a registered function/op" in message or "No Op registered for" in message


def test_the_table_of_operators_is_that_of_the_package() -> None:
    from onnxruntime.capi import _pybind_state

    here = {entry.name for entry in _pybind_state.get_all_operator_schema() if entry.domain == "com.microsoft"}
    file = Path(__file__).parents[2] / "poolgrad_lowering" / "onnxruntime_operators.json"
    assert set(json.loads(file.read_text())["com.microsoft"]) <= here


def test_a_model_without_gradients(tmp_path: Path) -> None:
    assert found(saved(tmp_path, parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"))) == {
        "provider": "no node of domain npu, which the provider runs",
        "bodies": "",
        "atc": "",
    }


def test_operators_whose_functions_are_gone(tmp_path: Path) -> None:
    model = lower(torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])).model
    del model.functions[:]
    reasons = found(saved(tmp_path, model))
    assert reasons["provider"] == reasons["bodies"] == "MaxPool3DGradWithArgmax has no function body"


def test_operators_inside_functions_count(tmp_path: Path) -> None:
    model = parse(
        "g (float[2] X) => (float[2] Y) { Y = local.f(X) }",
        imports='"local": 1, "com.microsoft": 1',
        functions='<domain: "local", opset_import: ["": 16, "com.microsoft": 1]> f (x) => (y) {'
        " y = com.microsoft.ConvGrad(x) }",
    )
    reasons = found(saved(tmp_path, model))
    assert reasons["bodies"] == "onnxruntime has no com.microsoft.ConvGrad; its training package may have them"
    assert reasons["atc"] == "function-call (local.f)"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(BUILT / "ort" / "lenet.onnx")]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "runs in onnxruntime with the execution provider: no, onnxruntime has no com.microsoft.InPlaceAccumulatorV2, "
        "com.microsoft.ReluGrad, com.microsoft.ConvGrad and 2 more; its training package may have them",
        "runs in onnxruntime alone, by function bodies: no, onnxruntime has no com.microsoft.InPlaceAccumulatorV2, "
        "com.microsoft.ReluGrad, com.microsoft.ConvGrad and 2 more; its training package may have them",
        "converts with ATC (`poolgrad export-atc`): no, unregistered-operator (com.microsoft.InPlaceAccumulatorV2), "
        "unregistered-operator (com.microsoft.ReluGrad), unregistered-operator (com.microsoft.ConvGrad) and 2 more",
    ]
    assert main(["inspect", str(BUILT / "torch" / "lenet.onnx")]) == 0
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()[-3:]] == ["yes", "yes", "yes"]
    assert main(["inspect", str(BUILT / "torch" / "dilated.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ways"][2] == {
        "way": "atc",
        "works": False,
        "reason": "kept-indices (MaxPool), dropped-dilation (MaxPool)",
    }
