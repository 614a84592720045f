# SPDX-License-Identifier: Apache-2.0

"""Each model of a folder is lowered as on its own, with results in order, despite errors in others."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering import FileError, UnknownTargetError, lower, lower_folder
from poolgrad_lowering.cli import main
from poolgrad_lowering.entry import folders
from tests.pool_graphs import parse, torch_gradient

GRADIENT = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
REFUSED = parse("g (float[2,3,4] X, float[2,3,4] dY, int64[2,3,4] I) => (dX) { dX = MaxPoolGrad(dY, I) }")


def saved(path: Path, model: ModelProto) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    saved(folder / "b.onnx", GRADIENT)
    saved(folder / "a" / "deep" / "z.onnx", REFUSED)
    saved(folder / "a" / "x.onnx", GRADIENT)
    (folder / "a" / "bad.onnx").write_bytes(b"garbage" * 9)
    (folder / "notes.txt").write_text("no model")
    return folder


def written(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


EXPECTED = {
    "b.onnx": lower(GRADIENT).model.SerializeToString(),
    "a/x.onnx": lower(GRADIENT).model.SerializeToString(),
    "a/deep/z.onnx": REFUSED.SerializeToString(),
}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_model_below_a_folder(models: Path, tmp_path: Path, jobs: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poolgrad_lowering.lowering")
    seen: list[tuple[str, int, int]] = []
    results = lower_folder(
        models,
        tmp_path / "new" / "out",
        jobs=jobs,
        report_folder=tmp_path / "reports",
        on_result=lambda result, done, total: seen.append((result.path, done, total)),
    )
    assert [result.path for result in results] == ["a/bad.onnx", "a/deep/z.onnx", "a/x.onnx", "b.onnx"]
    assert seen == [(result.path, number, 4) for number, result in enumerate(results, 1)]
    assert caplog.messages == [f"lowered {count} of 1 candidate for atlas-a2" for count in (0, 1, 1)]
    assert written(tmp_path / "new" / "out") == EXPECTED
    assert set(written(tmp_path / "reports")) == {f"{path}.json" for path in EXPECTED}
    bad, refused, *lowered = results
    assert (bad.report, bad.written) == (None, False)
    assert "'" + str(models / "a" / "bad.onnx") + "': it does not parse as an ONNX model" in str(bad.error)
    assert refused.report is not None
    assert refused.report.refused_by_code == {"indices-source": 1}
    assert all(result.error is None and result.report and result.report.lowered for result in lowered)
    report = json.loads((tmp_path / "reports" / "b.onnx.json").read_text())
    assert report["summary"]["lowered"] == 1


def test_strict(models: Path, tmp_path: Path) -> None:
    results = {result.path: result for result in lower_folder(models, tmp_path / "out", jobs=1, strict=True)}
    assert results["a/deep/z.onnx"].error == "1 candidate refused, no model written"
    assert set(written(tmp_path / "out")) == {"b.onnx", "a/x.onnx"}


def test_verification_is_of_each(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolgrad_lowering import VerificationError
    from poolgrad_lowering.entry import files

    def unproven(*_: object) -> None:
        raise VerificationError("not the same")

    monkeypatch.setattr(files, "require_proven", unproven)
    results = lower_folder(models, tmp_path / "out", jobs=1, verify=True)
    assert [result.error == "not the same" for result in results] == [False, False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent", "out", None), "cannot read 'absent': it is not a folder"),
        (("models/b.onnx", "out", None), "it is not a folder"),
        (("models/a/deep/none", "out", None), "it is not a folder"),
        (("empty", "out", None), "'empty' holds no model"),
        (("models", "models", None), "use separate folders"),
        (("models", "models/out", None), "use separate folders"),
        (("models", ".", None), "use separate folders"),
        (("models", "link/out", None), "use separate folders"),
        (("models", "out", "models/reports"), "use separate folders"),
        (("models", "models.txt", None), "cannot write below 'models.txt': it is not a folder"),
    ],
)
def test_rejected_folders(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str, str | None], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("models.txt").touch()
    Path("link").symlink_to(models)
    before = written(tmp_path)
    source, destination, reports = arguments
    with pytest.raises(FileError, match=message):
        lower_folder(source, destination, report_folder=reports)
    assert written(tmp_path) == before


def test_the_target_is_asked_first(models: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownTargetError):
        lower_folder(models, tmp_path / "out", target="atlas")
    assert not (tmp_path / "out").exists()


def test_links_to_folders_are_not_followed(models: Path, tmp_path: Path) -> None:
    (models / "loop").symlink_to(models)
    (models / "link.onnx").symlink_to(models / "b.onnx")
    results = lower_folder(models, tmp_path / "out", jobs=1)
    assert [result.path for result in results] == ["a/bad.onnx", "a/deep/z.onnx", "a/x.onnx", "b.onnx", "link.onnx"]


def test_an_error_that_nobody_foresaw(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(folders, "lower_file", fail)
    results = lower_folder(models, tmp_path / "out", jobs=1)
    assert {result.error for result in results} == {"unexpected ZeroDivisionError: by zero"}


def test_the_command(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lower", str(models), "-o", str(tmp_path / "out"), "--jobs", "1"]
    assert main(arguments) == 1
    bad, *lines = capsys.readouterr().out.splitlines()
    assert bad.startswith("a/bad.onnx: failed: '")
    assert lines == [
        "a/deep/z.onnx: written: 0 lowered, 1 refused",
        "a/x.onnx: written: 1 lowered, 0 refused",
        "b.onnx: written: 1 lowered, 0 refused",
        "4 models, 3 written, 1 failed; 2 candidates lowered, 1 refused",
    ]
    assert main([*arguments, "-q"]) == 1
    quiet = capsys.readouterr()
    assert quiet.out == ""
    assert quiet.err.startswith("poolgrad: failed: a/bad.onnx: ")
    assert quiet.err.count("\n") == 1
    (models / "a" / "bad.onnx").unlink()
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] == {"files": 3, "failed": 0}
    assert [file["path"] for file in found["files"]] == ["a/deep/z.onnx", "a/x.onnx", "b.onnx"]
    assert found["files"][2]["report"]["summary"]["lowered"] == 1


def test_a_plan_is_of_one_model(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", str(models), "-o", str(tmp_path / "out"), "--plan", "p.json"]) == 2
    assert "--plan is for one model" in capsys.readouterr().err
