# SPDX-License-Identifier: Apache-2.0

"""What `poolgrad inspect` says of the ways to run a model is what onnxruntime and the exporters say."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.file_io import FileOptions
from poolgrad_lowering.entry.files import inspect_file
from tests.pool_graphs import parse, torch_gradient

BUILT = Path(__file__).parents[4] / "models" / "built"
FOLDERS = ("torch", "torch_legacy", "ort", "ort_module", "spellings")
MODELS = sorted(path for folder in FOLDERS for path in (BUILT / folder).glob("*.onnx"))

ADVICE = "; its training package may have them, and --standard may write them in ONNX's operators"


def found(path: Path, target: str | None = None) -> dict[str, str]:
    """The reason by way; empty for a way that works."""
    ways = inspect_file(path, FileOptions(target=target)).ways
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
    file = Path(__file__).parents[4] / "poolgrad_lowering" / "ge" / "atc" / "onnxruntime_operators.json"
    assert set(json.loads(file.read_text())["com.microsoft"]) <= here


def test_a_model_without_gradients(tmp_path: Path) -> None:
    assert found(saved(tmp_path, parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"))) == {
        "provider": "no node of domain npu, which the provider runs",
        "bodies": "",
        "atc": "",
        "cann": "",
    }


def test_operators_whose_functions_are_gone(tmp_path: Path) -> None:
    model = lower(torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])).model
    del model.functions[:]
    reasons = found(saved(tmp_path, model))
    assert reasons["provider"] == reasons["bodies"] == "MaxPool3DGradWithArgmax has no function body"


@pytest.mark.parametrize(("target", "works"), [("ascend950", True), ("atlas-a2", True), ("atlas-inference", False)])
def test_a_lowered_model_on_another_product(tmp_path: Path, target: str, works: bool) -> None:
    model = lower(torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])).model
    reasons = found(saved(tmp_path, model), target)
    missing = "it has no MaxPool3DGradWithArgmax, MaxPool3DWithArgmaxV2 for atlas-inference"
    assert reasons["provider"] == ("" if works else f"no node of domain npu, which the provider runs: {missing}")
    assert reasons["bodies"] == ""
    assert bool(reasons["cann"]) is not works


def test_a_lowered_node_without_outputs(tmp_path: Path) -> None:
    """Its element type is not known: it counts as one that the target takes."""
    model = lower(torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])).model
    bare = model.graph.node.add(domain="npu", op_type="MaxPool3DGradWithArgmax", name="bare")
    bare.input.extend(["X", "dY", "dY"])
    assert found(saved(tmp_path, model))["provider"] == ""


def test_operators_inside_functions_count(tmp_path: Path) -> None:
    model = parse(
        "g (float[2] X) => (float[2] Y) { Y = local.f(X) }",
        imports='"local": 1, "com.microsoft": 1',
        functions='<domain: "local", opset_import: ["": 16, "com.microsoft": 1]> f (x) => (y) {'
        " y = com.microsoft.ConvGrad(x) }",
    )
    reasons = found(saved(tmp_path, model))
    assert reasons["bodies"] == "onnxruntime has no com.microsoft.ConvGrad" + ADVICE
    assert reasons["atc"] == "function-call (local.f)"


def test_an_operator_of_the_domain_that_nobody_has(tmp_path: Path) -> None:
    """Neither the provider nor CANN has npu.Foo; a function body makes it run in onnxruntime, and nowhere else."""
    text = "g (float[2] X) => (float[2] Y) { Y = npu.Foo(X) }"
    body = '<domain: "npu", opset_import: ["": 16]> Foo (a) => (b) { b = Relu(a) }'
    reasons = found(saved(tmp_path, parse(text, imports='"npu": 1')))
    assert reasons["provider"] == reasons["bodies"] == reasons["cann"] == "onnxruntime has no npu.Foo"
    assert reasons["atc"] == "unregistered-operator (npu.Foo)"
    reasons = found(saved(tmp_path, parse(text, imports='"npu": 1', functions=body)))
    nobody = "no node of domain npu, which the provider runs: it has no Foo"
    assert reasons == {"provider": nobody, "bodies": "", "atc": "function-call (npu.Foo)", "cann": nobody}


def test_what_graph_mode_refuses() -> None:
    reasons = found(BUILT / "torch" / "lenet_opset21.onnx")
    assert reasons["cann"] == reasons["atc"] == "opset (the model)"
    assert reasons["provider"] == ""


def test_what_cann_may_refuse(tmp_path: Path) -> None:
    """`create_session` warns of it, and `export-cann` writes the model."""
    model = parse("g (float[1,2] Z, int64[2] S) => (Y, T) { Y = Expand(Z, S) T = Tan(Y) }")
    onnx.save(model, tmp_path / "model.onnx")
    ways = {way.way: way for way in inspect_file(tmp_path / "model.onnx").ways}
    assert (ways["cann"].works, ways["cann"].reason, ways["cann"].doubt) == (
        True,
        "",
        "shape-operand (Expand), on-the-cpu (Tan)",
    )


def test_the_placement_is_that_of_the_lowered_model() -> None:
    placement = inspect_file(BUILT / "torch" / "lenet.onnx", FileOptions(target="ascend950")).placement
    assert placement is not None
    assert [(count.place, count.nodes) for count in placement.places] == [("provider", 4), ("cann", 65), ("cpu", 0)]
    assert (placement.sub_models, placement.copies) == (5, 0)
    assert lower(onnx.load(BUILT / "torch" / "lenet.onnx")).report.placement is None


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(BUILT / "ort" / "lenet.onnx")]) == 0
    missing = (
        "no, onnxruntime has no com.microsoft.InPlaceAccumulatorV2, com.microsoft.ReluGrad, com.microsoft.ConvGrad "
        "and 2 more" + ADVICE
    )
    assert capsys.readouterr().out.splitlines()[-9:-5] == [
        f"runs in onnxruntime with the execution provider: {missing}",
        f"runs in onnxruntime alone, by function bodies: {missing}",
        "converts with ATC (`poolgrad export-atc`): no, unregistered-operator (com.microsoft.InPlaceAccumulatorV2), "
        "unregistered-operator (com.microsoft.ReluGrad), unregistered-operator (com.microsoft.ConvGrad) and 2 more",
        f"runs beside onnxruntime's CANN provider: {missing}",
    ]
    assert main(["inspect", str(BUILT / "torch" / "lenet.onnx")]) == 0
    lines = capsys.readouterr().out.splitlines()[-9:]
    assert [line.rpartition(": ")[2] for line in lines[:4]] == ["yes"] * 4
    assert lines[4:] == [
        "place beside the CANN provider  nodes  share of bytes",
        "this package's provider         4      21.9%",
        "onnxruntime's CANN provider     65     78.1%",
        "CPU                             0      0.0%",
        "5 sub-models of the CANN provider, 0 values copied between host and device inside a step; "
        "2 tensors of unknown size",
    ]
    assert main(["inspect", str(BUILT / "torch" / "dilated.onnx"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ways"][2] == {
        "way": "atc",
        "works": True,
        "reason": "",
        "doubt": "",
    }
    assert data["placement"]["places"][0]["place"] == "provider"
    assert sum(count["nodes"] for count in data["placement"]["places"]) > 0
