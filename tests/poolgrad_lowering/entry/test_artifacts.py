# SPDX-License-Identifier: Apache-2.0

"""onnxruntime's training artifacts, lowered as one folder. That they train is shown in `tests/training`."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import FileError, InvalidModelError, lower, lower_artifacts
from poolgrad_lowering.entry.cli import main
from tests import external_models
from tests.external_models import external, onto_zeros
from tests.pool_graphs import REFUSED, ort_gradient, parse

TRAINING = ort_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
EVAL = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")
OPTIMIZER = parse("g (float[2] W) => (float[2] V) { V = Neg(W) }", ir=onnx.IR_VERSION)


def write_artifacts(folder: Path, prefix: str = "", training: ModelProto = TRAINING) -> Path:
    folder.mkdir()
    for name, model in (("training", training), ("eval", EVAL), ("optimizer", OPTIMIZER)):
        (folder / f"{prefix}{name}_model.onnx").write_bytes(model.SerializeToString())
    (folder / f"{prefix}checkpoint").write_bytes(b"weights")
    (folder / "data.csv").write_text("1,2\n")
    return folder


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return write_artifacts(tmp_path / "artifacts")


def written(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("prefix", ["", "lenet_"])
def test_a_folder_to_train_from(tmp_path: Path, prefix: str) -> None:
    source, destination = write_artifacts(tmp_path / "in", prefix), tmp_path / "out"
    report = lower_artifacts(source, destination)
    assert len(report.lowered) == 1
    files = written(destination)
    assert files.pop(f"{prefix}optimizer_model.onnx") != OPTIMIZER.SerializeToString()
    assert files == {
        f"{prefix}training_model.onnx": lower(TRAINING).model.SerializeToString(),
        f"{prefix}eval_model.onnx": EVAL.SerializeToString(),
        f"{prefix}checkpoint": b"weights",
    }


def test_models_get_an_ir_version_that_loads(artifacts: Path, tmp_path: Path) -> None:
    lower_artifacts(artifacts, tmp_path / "out")
    optimizer = onnx.load(tmp_path / "out" / "optimizer_model.onnx")
    assert optimizer.ir_version == 10
    optimizer.ir_version = OPTIMIZER.ir_version
    assert optimizer == OPTIMIZER


def test_a_checkpoint_of_several_files(artifacts: Path, tmp_path: Path) -> None:
    (artifacts / "checkpoint").unlink()
    (artifacts / "checkpoint" / "a" / "b").mkdir(parents=True)
    (artifacts / "checkpoint" / "a" / "b" / "weights").write_bytes(b"1")
    (artifacts / "checkpoint.data").write_bytes(b"2")
    (artifacts / "nominal_checkpoint").write_bytes(b"3")
    lower_artifacts(artifacts, tmp_path / "out")
    files = {name: data for name, data in written(tmp_path / "out").items() if "checkpoint" in name}
    assert files == {"checkpoint/a/b/weights": b"1", "checkpoint.data": b"2", "nominal_checkpoint": b"3"}


def test_what_is_not_there_is_left_out(artifacts: Path, tmp_path: Path) -> None:
    for name in ("eval_model.onnx", "optimizer_model.onnx"):
        (artifacts / name).unlink()
    lower_artifacts(artifacts, tmp_path / "out")
    assert set(written(tmp_path / "out")) == {"training_model.onnx", "checkpoint"}


def test_external_data_goes_along(artifacts: Path, tmp_path: Path) -> None:
    model = ModelProto.FromString(EVAL.SerializeToString())
    tensor = model.graph.initializer.add(name="W", data_type=1, dims=[1], data_location=1)
    tensor.external_data.add(key="location", value="w.bin")
    (artifacts / "eval_model.onnx").write_bytes(model.SerializeToString())
    (artifacts / "w.bin").write_bytes(bytes(4))
    lower_artifacts(artifacts, tmp_path / "out")
    assert (tmp_path / "out" / "w.bin").read_bytes() == bytes(4)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("checkpoint", "holds no checkpoint, which training starts from"),
        ("training_model.onnx", "holds no training_model.onnx: give the folder that generate_artifacts has written"),
    ],
)
def test_artifacts_that_are_missing(artifacts: Path, tmp_path: Path, spoil: str, message: str) -> None:
    (artifacts / spoil).unlink()
    with pytest.raises(FileError, match=message):
        lower_artifacts(artifacts, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]


def test_places_that_do_not_go(artifacts: Path, tmp_path: Path) -> None:
    (artifacts / "b_training_model.onnx").write_bytes(b"")
    with pytest.raises(FileError, match="several training models, b_"):
        lower_artifacts(artifacts, tmp_path / "out")
    (artifacts / "b_training_model.onnx").unlink()
    with pytest.raises(FileError, match="it exists and is not an empty folder"):
        lower_artifacts(artifacts, artifacts)
    with pytest.raises(FileError, match="it is not a folder"):
        lower_artifacts(tmp_path / "absent", tmp_path / "out")
    for folder, name in ((artifacts, "checkpoint"), (tmp_path / "out", "training_model.onnx")):
        with pytest.raises(FileError, match="cannot write the report"):
            lower_artifacts(artifacts, tmp_path / "out", report_path=folder / name)
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]


def test_a_folder_that_cannot_be_read(artifacts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(FileError, match=": Permission denied"):
        lower_artifacts(artifacts, tmp_path / "out")


@pytest.mark.parametrize("name", ["training_model.onnx", "eval_model.onnx", "optimizer_model.onnx"])
def test_a_bad_model_leaves_nothing(artifacts: Path, tmp_path: Path, name: str) -> None:
    (artifacts / name).write_bytes(b"garbage" * 9)
    with pytest.raises(InvalidModelError, match=name):
        lower_artifacts(artifacts, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]


def test_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, report = write_artifacts(tmp_path / "in", training=REFUSED), tmp_path / "report.json"
    arguments = ["lower-artifacts", str(source), "-o", str(tmp_path / "out"), "--report", str(report)]
    assert main([*arguments, "--strict"]) == 1
    assert not (tmp_path / "out").exists()
    assert json.loads(report.read_text())["summary"]["refused"] == 1
    assert "1 anchor refused, no model written" in capsys.readouterr().err
    assert main(arguments) == 0
    assert f"wrote {tmp_path / 'out'}\n" in capsys.readouterr().out
    assert main(arguments) == 2
    assert main(["lower-artifacts", str(source), "-o", str(tmp_path / "json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["refused"] == 1


def test_what_is_proven_of_the_training_model_is_printed(
    artifacts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lower-artifacts", str(artifacts), "-o", str(tmp_path / "out"), "--verify"]) == 0
    *_, proven, wrote = capsys.readouterr().out.splitlines()
    assert proven.startswith("proven: 1 site by 9 runs, no difference outside of sites, whole model: ")
    assert wrote == f"wrote {tmp_path / 'out'}"


def test_zeros_in_external_data(tmp_path: Path) -> None:
    """The zeros are removed with their site, and the models of the folder do not share copied data."""
    source = tmp_path / "artifacts"
    model, data = onto_zeros(external("", [6, 16], "all.data", offset=0)), bytes(6 * 16 * 4) + b"weights"
    model.graph.initializer.append(external("w", [7], "all.data", kind=TensorProto.UINT8, offset=384, length=7))
    path = external_models.saved(source, model, data, "all.data")
    path.rename(source / "training_model.onnx")
    evaluation = parse("g (float[2] X) => (Y) { Y = Relu(X) }")
    evaluation.graph.initializer.append(model.graph.initializer[-1])
    (source / "eval_model.onnx").write_bytes(evaluation.SerializeToString())
    (source / "checkpoint").write_bytes(b"state")
    assert lower_artifacts(source, tmp_path / "out").lowered
    assert (tmp_path / "out" / "training_model.onnx.all.data").read_bytes() == b"weights"
    assert (tmp_path / "out" / "all.data").read_bytes() == data
    for name in ("training_model.onnx", "eval_model.onnx"):
        [weights] = [tensor for tensor in onnx.load(tmp_path / "out" / name).graph.initializer if tensor.name == "w"]
        assert weights.raw_data == b"weights"
