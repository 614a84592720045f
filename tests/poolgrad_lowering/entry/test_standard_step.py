# SPDX-License-Identifier: Apache-2.0

"""Artifacts as a step in standard ONNX: its names, its updates, and its losses beside those of onnxruntime-training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from models.artifact_curves import train
from models.artifact_runs import FOLDERS, RESUMED, RUNS, STEPS, batches
from poolgrad_lowering import (
    FileError,
    lower_artifacts,
    read_checkpoint,
    write_checkpoint,
)
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.model import scalar_axes
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.standard import update_writer

TRAINED = ("0.weight", "3.weight", "3.bias", "7.weight", "7.bias")
"""The parameters of the LeNet that are trained."""
DIFFERENCE = 2e-5
"""Of losses, by which sums in another order differ after some steps; measured are 2e-6 after 200."""


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The step of the LeNet."""
    folder = tmp_path_factory.mktemp("lenet") / "step"
    lower_artifacts(FOLDERS / "lenet", folder, standard=True)
    return folder


def session(file: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def loop(folder: Path) -> TrainingLoop:
    return TrainingLoop(session(folder / "training_step.onnx"), np.load(folder / "values.npz"))


def steps(trained: TrainingLoop, name: str, first: int, last: int) -> list[float]:
    fed = list(batches(name, last))[first:]
    rate = RUNS[name].rate
    return [float(trained.step(images=images, labels=labels, learning_rate=rate)["loss"]) for images, labels in fed]


def test_names_and_files(lenet: Path) -> None:
    model = onnx.load(lenet / "training_step.onnx")
    onnx.checker.check_model(model, full_check=True)
    inputs, outputs = ([value.name for value in values] for values in (model.graph.input, model.graph.output))
    kept = [f"{kind}.{name}" for name in TRAINED for kind in ("weight", "state.mean", "state.square")]
    assert {*inputs} == {"images", "labels", "learning_rate", "weight.0.bias", "state.steps", *kept}
    assert {*outputs} == {"loss", "new_state.steps", *(f"new_{name}" for name in kept)}
    assert {node.domain for node in model.graph.node} == {"", "npu"}
    assert {entry.domain for entry in model.opset_import} == {"", "npu"}
    files = ["checkpoint", "eval_model.onnx", "training_step.onnx", "values.npz"]
    assert sorted(path.name for path in lenet.iterdir()) == files
    assert (lenet / "checkpoint").read_bytes() == (FOLDERS / "lenet" / "checkpoint").read_bytes()
    evaluation = onnx.load(lenet / "eval_model.onnx")
    assert {value.name for value in evaluation.graph.input} == {n for n in inputs if n in ("images", "labels")} | {
        f"weight.{name}" for name in ("0.bias", *TRAINED)
    }
    assert [value.name for value in evaluation.graph.output] == ["loss"]


def test_the_report_counts_the_bytes_of_the_step(tmp_path: Path) -> None:
    report = lower_artifacts(FOLDERS / "lenet", tmp_path / "step", standard=True)
    assert report.bytes_after == (tmp_path / "step" / "training_step.onnx").stat().st_size


def test_scalars_have_the_axes_of_weights_whose_last_axis_has_one_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalar_axes, "FEWEST", 18)
    lower_artifacts(FOLDERS / "unet", tmp_path / "step", standard=True)
    graph = onnx.load(tmp_path / "step" / "training_step.onnx").graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.input}
    pointwise = {name for name, shape in shapes.items() if name.startswith("state.mean.") and shape[2:] == [1, 1]}
    operands = [[*node.input] for node in graph.node if node.op_type == "Mul" and pointwise.intersection(node.input)]
    constants = {tensor.name: [*tensor.dims] for tensor in graph.initializer}
    assert (
        [[constants.get(name, shapes.get(name)) for name in each] for each in operands]
        == [[[3, 6, 1, 1], [1, 1, 1, 1]]] * len(pointwise)
        != []
    )


def test_first_values_are_those_of_the_checkpoint(lenet: Path) -> None:
    values = dict(np.load(lenet / "values.npz"))
    stored = read_checkpoint(lenet / "checkpoint")
    assert {name for name in values if name.startswith("weight.")} == stored.keys()
    assert all(np.array_equal(values[name], array) for name, array in stored.items())
    assert not any(array.any() for name, array in values.items() if name.startswith("state."))


@pytest.mark.parametrize("name", RUNS)
def test_losses_of_onnxruntime_training(name: str, tmp_path: Path) -> None:
    """Forty steps; all two hundred in `tests/training`."""
    losses, trained = train(name, tmp_path / "step", 40)
    expected = np.load(FOLDERS / name / "run.npz")["losses"][:40]
    assert np.abs(expected - losses).max() < DIFFERENCE
    assert expected[:5].mean() > expected[-5:].mean(), "it learns"
    assert len(trained.values()) > 4


@pytest.mark.parametrize("name", ["lenet", "transformer", "unet"])
def test_a_checkpoint_of_the_middle_goes_on(name: str, tmp_path: Path) -> None:
    """With the state of AdamW, from where onnxruntime-training left it."""
    lower_artifacts(FOLDERS / name, tmp_path / "step", standard=True)
    trained = loop(tmp_path / "step")
    middle = read_checkpoint(FOLDERS / name / RESUMED)
    assert middle["state.steps"] == STEPS // 2
    trained.load(middle)
    losses = steps(trained, name, STEPS // 2, STEPS // 2 + 20)
    expected = np.load(FOLDERS / name / "run.npz")["losses"][STEPS // 2 :][:20]
    assert np.abs(expected - losses).max() < DIFFERENCE


def test_checkpoints_back_and_forth(lenet: Path, tmp_path: Path) -> None:
    trained = loop(lenet)
    steps(trained, "lenet", 0, 3)
    write_checkpoint(tmp_path / "three", trained.values(), like=lenet / "checkpoint")
    found = read_checkpoint(tmp_path / "three")
    assert found.keys() == trained.values().keys()
    assert all(np.array_equal(found[name], array) for name, array in trained.values().items())
    again = loop(lenet)
    again.load(found)
    assert steps(again, "lenet", 3, 6) == steps(trained, "lenet", 3, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("weight.3.bias"), "the values lack 'weight.3.bias'"),
        (lambda values: values.pop("state.mean.3.bias"), "the values lack 'state.mean.3.bias'"),
        (lambda values: values.update({"weight.3.bias": np.zeros(9, np.float32)}), r"float32\[9\].*float32\[8\]"),
        (lambda values: values.update({"weight.0.bias": np.zeros(9, np.float32)}), r"'weight.0.bias' is float32\[9\]"),
        (lambda values: values.update({"weight.3.bias": np.zeros(8)}), r"float64\[8\].*float32\[8\]"),
        (lambda values: values.update({"weight.other": np.zeros(8)}), "the values have 'weight.other', which"),
        (lambda values: values.update({"state.mean.other": np.zeros(8)}), "the values have 'state.mean.other', which"),
    ],
)
def test_values_that_do_not_fit_a_checkpoint(change: Any, message: str, lenet: Path, tmp_path: Path) -> None:
    values = dict(np.load(lenet / "values.npz"))
    change(values)
    with pytest.raises(FileError, match=message):
        write_checkpoint(tmp_path / "new", values, like=lenet / "checkpoint")
    assert not (tmp_path / "new").exists()


def test_accumulation_adds_up_gradients(tmp_path: Path) -> None:
    """Two halves of a batch, accumulated, move the weights as their sum does: by twice the gradient of the whole."""
    lower_artifacts(with_sgd(tmp_path / "in"), tmp_path / "out", standard=True, accumulate=True)
    trained = loop(tmp_path / "out")
    images, labels = next(batches("lenet", 1))
    before = trained.values()
    for half in (slice(0, 4), slice(4, 8)):
        found = trained.step(images=images[half], labels=labels[half], learning_rate=0.1, update=half.start == 4)
        if half.start == 0:
            unchanged = trained.values()
            assert all(np.array_equal(unchanged[n], a) for n, a in before.items() if n.startswith("weight."))
            assert all(unchanged[name].any() for name in unchanged if name.startswith("state.gradient."))
    assert found["loss"] > 0
    after = trained.values()
    assert not any(array.any() for name, array in after.items() if name.startswith("state.gradient."))
    plain = loop(tmp_path / "out")
    plain.step(images=images, labels=labels, learning_rate=0.2, update=True)
    for name, array in plain.values().items():
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-6, err_msg=name)  # sums in another order


@pytest.mark.parametrize("accumulate", [False, True])
def test_vectors_are_updated_side_by_side_with_the_same_bits(
    accumulate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower_artifacts(FOLDERS / "transformer", tmp_path / "joint", standard=True, accumulate=accumulate)
    monkeypatch.setattr(update_writer, "side_by_side", lambda shapes: [[name] for name in shapes])
    lower_artifacts(FOLDERS / "transformer", tmp_path / "alone", standard=True, accumulate=accumulate)
    found = {}
    for name in ("joint", "alone"):
        trained = loop(tmp_path / name)
        images, labels = next(batches("transformer", 1))
        for number in range(2):
            updating = {"update": number == 1} if accumulate else {}
            trained.step(images=images, labels=labels, learning_rate=0.1, **updating)
        found[name] = {value: array.tobytes() for value, array in trained.values().items()}
    assert found["joint"] == found["alone"]
    nodes = {name: len(onnx.load(tmp_path / name / "training_step.onnx").graph.node) for name in found}
    assert nodes["joint"] < nodes["alone"]


def with_sgd(folder: Path) -> Path:
    """The LeNet's artifacts with SGD, whose update is linear in the gradient."""
    shutil.copytree(FOLDERS / "lenet", folder)
    shutil.copy(FOLDERS / "resnet" / "optimizer_model.onnx", folder)
    return folder


def test_without_an_optimizer_the_outputs_are_gradients(tmp_path: Path, lenet: Path) -> None:
    shutil.copytree(FOLDERS / "lenet", tmp_path / "in")
    (tmp_path / "in" / "optimizer_model.onnx").unlink()
    lower_artifacts(tmp_path / "in", tmp_path / "out", standard=True)
    images, labels = next(batches("lenet", 1))
    found = loop(tmp_path / "out").step(images=images, labels=labels)
    assert found.keys() == {"loss", *(f"grad.{name}" for name in TRAINED)}
    first = loop(lenet)
    first.step(images=images, labels=labels, learning_rate=0.0)
    for name, gradient in found.items():
        if name != "loss":
            kept = first.values()[name.replace("grad.", "state.mean.")]
            np.testing.assert_allclose(kept, 0.1 * gradient, rtol=1e-5)  # one product is rounded in between


def test_the_provider_runs_the_pools(lenet: Path) -> None:
    found = TrainingLoop(create_session(str(lenet / "training_step.onnx")), np.load(lenet / "values.npz"))
    assert steps(found, "lenet", 0, 5) == steps(loop(lenet), "lenet", 0, 5)


def test_a_prefix_and_no_evaluation_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("training_model.onnx", "optimizer_model.onnx", "checkpoint"):
        shutil.copy(FOLDERS / "lenet" / name, tmp_path / "in" / f"net_{name}")
    lower_artifacts(tmp_path / "in", tmp_path / "out", standard=True)
    files = ["net_checkpoint", "net_training_step.onnx", "net_values.npz"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files


@pytest.mark.note("session")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    places = [str(FOLDERS / "unet"), "-o", str(tmp_path / "out"), "--report", str(report)]
    assert main(["lower-artifacts", "--standard", *places]) == 0
    printed = capsys.readouterr().out
    assert "nodes of 7 operators of training runtimes replaced; all operators of the model are ONNX's own" in printed
    assert f"note: onnxruntime {onnxruntime.__version__} loads training_step.onnx and eval_model.onnx" in printed
    found = json.loads(report.read_text())
    assert found["standard"]["left"] == []
    assert found["standard"]["replaced"]["com.microsoft.ConvGrad"] == 4


def test_accumulate_needs_standard(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="standard"):
        lower_artifacts(FOLDERS / "lenet", tmp_path / "out", accumulate=True)
    assert main(["lower-artifacts", str(FOLDERS / "lenet"), "-o", str(tmp_path / "out"), "--accumulate"]) == 2
    assert not (tmp_path / "out").exists()


def test_external_data_comes_along(tmp_path: Path) -> None:
    shutil.copytree(FOLDERS / "resnet", tmp_path / "in")
    model = onnx.load(tmp_path / "in" / "training_model.onnx")
    for tensor in model.graph.initializer:
        if tensor.name.endswith("running_mean"):
            tensor.raw_data = np.arange(np.prod(tensor.dims), dtype=np.float32).tobytes()
    model.ir_version = onnx.IR_VERSION
    file = tmp_path / "in" / "training_model.onnx"
    onnx.save(model, file, save_as_external_data=True, location="weights.data", size_threshold=0)
    lower_artifacts(tmp_path / "in", tmp_path / "out", standard=True)
    step = onnx.load(tmp_path / "out" / "training_step.onnx", load_external_data=False)
    assert step.ir_version == 10
    left = {
        entry.value for tensor in step.graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    assert all((tmp_path / "out" / name).is_file() for name in left)
    expected = np.load(FOLDERS / "resnet" / "run.npz")["losses"][:5]
    assert np.abs(expected - steps(loop(tmp_path / "out"), "resnet", 0, 5)).max() < DIFFERENCE
