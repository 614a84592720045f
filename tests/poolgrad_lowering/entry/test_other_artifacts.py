# SPDX-License-Identifier: Apache-2.0

"""Artifacts of which no step is made, or none that loads: what is said of them, and that nothing is written."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from models.artifact_runs import FOLDERS
from poolgrad_lowering import FileError, lower_artifacts
from poolgrad_lowering.entry.cli import main


def damaged(folder: Path, name: str, change: Any) -> Path:
    shutil.copytree(FOLDERS / "lenet", folder)
    model = onnx.load(folder / name)
    change(model)
    onnx.save(model, folder / name)
    return folder


def with_labels_of_other_sizes(model: onnx.ModelProto) -> None:
    """As generate_artifacts declares the labels of a segmentation: the scores' shape without the last size."""
    [labels] = [value for value in model.graph.input if value.name == "labels"]
    labels.type.tensor_type.shape.dim.add().dim_value = 7


@pytest.mark.note("no-session")
def test_a_step_that_does_not_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = damaged(tmp_path / "in", "training_model.onnx", with_labels_of_other_sizes)
    report = lower_artifacts(source, tmp_path / "out", standard=True)
    [note] = [note for note in report.notes if note.code == "no-session"]
    assert note.warning
    assert f"onnxruntime {onnxruntime.__version__} does not load training_step.onnx: " in note.text
    assert main(["lower-artifacts", str(source), "-o", str(tmp_path / "again"), "--standard"]) == 0
    assert "does not load training_step.onnx" in capsys.readouterr().err


def test_without_onnxruntime_nothing_is_said_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = lower_artifacts(FOLDERS / "lenet", tmp_path / "out", standard=True)
    assert not [note for note in report.notes if "onnxruntime" in note.text]


def with_yield(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("YieldOp", ["images"], ["strange"], name="cut", domain="com.microsoft"))
    model.graph.output.append(helper.make_tensor_value_info("strange", TensorProto.FLOAT, None))


def test_what_has_no_definition_stays_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = damaged(tmp_path / "in", "training_model.onnx", with_yield)
    assert main(["lower-artifacts", str(source), "-o", str(tmp_path / "out"), "--standard"]) == 0
    printed = capsys.readouterr().out
    assert "cut" in printed
    assert "part-of-a-step: " in printed
    assert "1 left; the model runs only in a runtime that has the operators left" in printed
    step = onnx.load(tmp_path / "out" / "training_step.onnx")
    assert [node.op_type for node in step.graph.node if node.domain == "com.microsoft"] == ["YieldOp"]
    assert main(["lower-artifacts", str(source), "-o", str(tmp_path / "strict"), "--standard", "--strict"]) == 1
    assert "1 node without a definition, no model written" in capsys.readouterr().err
    assert not (tmp_path / "strict").exists()


def of_an_input(name: str) -> Any:
    return lambda model: model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]))


def with_attribute(name: str, value: Any) -> Any:
    """AdamW with an attribute more, or with another value of one."""

    def change(model: onnx.ModelProto) -> None:
        [node] = [node for node in model.graph.node if node.op_type == "AdamWOptimizer"]
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def with_inner_loss(model: onnx.ModelProto) -> None:
    """A value that is not the loss has its name."""
    model.graph.node.append(helper.make_node("Identity", ["images"], ["loss"]))
    model.graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, None))


def with_huge_parameter(model: onnx.ModelProto) -> None:
    [weight] = [value for value in model.graph.input if value.name == "0.weight"]
    weight.type.tensor_type.shape.dim[0].dim_value = 1 << 40


def with_weight_in_16_bits(model: onnx.ModelProto) -> None:
    [weight] = [value for value in model.graph.input if value.name == "0.weight"]
    weight.type.tensor_type.elem_type = TensorProto.FLOAT16


def at_opset_9(model: onnx.ModelProto) -> None:
    """With a third input for each Gemm, which this opset requires."""
    [entry] = [entry for entry in model.opset_import if entry.domain == ""]
    entry.version = 9
    for node in model.graph.node:
        if node.op_type == "Gemm":
            node.input[:] = [*node.input[:2], model.graph.input[0].name]


def accumulating(change: Any) -> Any:
    return lambda model: change(next(n for n in model.graph.node if n.op_type == "InPlaceAccumulatorV2"))


def exchange_gradients(model: onnx.ModelProto) -> None:
    """Each bias gets the gradient of another one, of another size."""
    biases = [node for node in model.graph.node if "bias_grad.accumulation.buffer" in node.input[0]]
    biases[0].input[1], biases[1].input[1] = biases[1].input[1], biases[0].input[1]


def without_a_sum(model: onnx.ModelProto) -> None:
    """The last bias gets a gradient with a row for each image."""
    [bias] = [node for node in model.graph.node if node.input[0] == "7.bias_grad.accumulation.buffer"]
    bias.input[1] = "/6/Flatten_output_0"


def of_a_where(model: onnx.ModelProto) -> None:
    """The last bias gets its gradient from a Where that broadcasts it."""
    [gradient] = [node for node in model.graph.node if node.output[0] == "7.bias_grad"]
    rows = "/6/Flatten_output_0"
    equal = [node for node in model.graph.node if node.output[0] == rows]
    gradient.op_type, gradient.input[:] = "Where", ["chosen", rows, rows]
    place = [*model.graph.node].index(equal[0]) + 1
    model.graph.node.insert(place, helper.make_node("Equal", [rows, rows], ["chosen"]))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("optimizer_model.onnx", with_attribute("axis", 1), "its AdamWOptimizer has an attribute axis that"),
        ("optimizer_model.onnx", with_attribute("alpha", 1), "its AdamWOptimizer has an attribute alpha that"),
        ("optimizer_model.onnx", with_attribute("beta", float("nan")), "its AdamWOptimizer has an attribute beta that"),
        ("optimizer_model.onnx", with_attribute("epsilon", [1.0, 2.0]), "has an attribute epsilon that the operator"),
        ("training_model.onnx", with_inner_loss, "has the name 'loss', which a step has for itself"),
        ("training_model.onnx", with_huge_parameter, "has '0.weight' as [4, 1, 3, 3], the training model as [1099511"),
        ("training_model.onnx", with_weight_in_16_bits, "'0.weight' is no float32 tensor of known sizes, which"),
        ("training_model.onnx", at_opset_9, "export the forward graph at opset 18, and make the artifacts again"),
        ("training_model.onnx", accumulating(lambda node: node.input.append("labels")), "which is no buffer of"),
        ("training_model.onnx", lambda model: model.graph.output.pop(0), "its first output is no loss"),
        (
            "optimizer_model.onnx",
            lambda model: model.graph.node.append(helper.make_node("LambOptimizer", [], [], domain="com.microsoft")),
            "optimizer_model.onnx' is no optimizer model that a step can have: it has a node LambOptimizer",
        ),
        ("optimizer_model.onnx", lambda model: model.graph.node.pop(), "neither AdamWOptimizer nor SGDOptimizerV2"),
        ("training_model.onnx", of_an_input("learning_rate"), "has the name 'learning_rate'"),
        (
            "training_model.onnx",
            lambda model: [entries.pop() for entries in (model.graph.node, model.graph.output) for _ in range(5)],
            "training_model.onnx' is no training model of generate_artifacts: it has no InPlaceAccumulatorV2",
        ),
        ("training_model.onnx", exchange_gradients, "has shape [5], the value [8]; generate_artifacts leaves out"),
        ("training_model.onnx", without_a_sum, "has shape [batch, 128], the value [5]; generate_artifacts sums no"),
        (
            "training_model.onnx",
            of_a_where,
            "of '7.bias' has shape [batch, 128], the value [5]; generate_artifacts sums no gradient of what a Where",
        ),
    ],
)
def test_other_artifacts(
    file: str, change: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = damaged(tmp_path / "in", file, change)
    assert main(["lower-artifacts", str(source), "-o", str(tmp_path / "out"), "--standard"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_another_network(tmp_path: Path) -> None:
    shutil.copytree(FOLDERS / "lenet", tmp_path / "in")
    shutil.copy(FOLDERS / "unet" / "checkpoint", tmp_path / "in")
    with pytest.raises(FileError, match=r"lacks the parameter '0\.weight'"):
        lower_artifacts(tmp_path / "in", tmp_path / "out", standard=True)
    assert not (tmp_path / "out").exists()
