# SPDX-License-Identifier: Apache-2.0

"""Each model of a folder is lowered as on its own, with results in order, despite errors in others."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import html5lib
import pytest

from poolgrad_lowering import FileError, UnknownTargetError, lower, lower_folder
from poolgrad_lowering.entry import folders
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from tests.harness.processes import environment
from tests.pool_graphs import GRADIENT, REFUSED, parse, saved


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
    caplog.set_level(logging.INFO, "poolgrad_lowering.compiler.lowering.pipeline")
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
    assert caplog.messages == [f"lowered {count} of 1 anchor for atlas-a2" for count in (0, 1, 1)]
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
    assert results["a/deep/z.onnx"].error == "1 anchor refused, no model written"
    assert set(written(tmp_path / "out")) == {"b.onnx", "a/x.onnx"}


def test_verification_is_of_each(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolgrad_lowering import VerificationError
    from poolgrad_lowering.entry.file_io import SourceFile

    def unproven(*_: object) -> None:
        raise VerificationError("not the same")

    monkeypatch.setattr(SourceFile, "require_proven", unproven)
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

    monkeypatch.setattr(folders, "lower_path", fail)
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
        "4 models, 3 written, 1 failed; 2 anchors lowered, 1 refused",
        "refused: indices-source 1",
    ]
    assert main([*arguments, "-q"]) == 1
    quiet = capsys.readouterr()
    assert quiet.out == ""
    assert quiet.err.startswith("poolgrad: failed: a/bad.onnx: ")
    assert quiet.err.count("\n") == 1
    (models / "a" / "bad.onnx").unlink()
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] == {"files": 3, "failed": 0, "refused_by_code": {"indices-source": 1}}
    assert [file["path"] for file in found["files"]] == ["a/deep/z.onnx", "a/x.onnx", "b.onnx"]
    assert found["files"][2]["report"]["summary"]["lowered"] == 1


def test_a_plan_is_of_one_model(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["lower", str(models), "-o", str(tmp_path / "out")], ["inspect", str(models)]):
        assert main([*arguments, "--plan", "p.json"]) == 2
        assert "--plan is for one model" in capsys.readouterr().err
    assert main(["verify", str(models), str(models), "--reproducer", "case"]) == 2
    assert "--reproducer is for two models" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["lower", "inspect"])
def test_pages_with_an_index(models: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved(models / "a" / "<i>&.onnx", REFUSED)
    pages, out = tmp_path / "pages", ["-o", str(tmp_path / "out")] if command == "lower" else []
    assert main([command, str(models), *out, "--html", str(pages), "--jobs", "1"]) == 1
    assert f"wrote {pages / 'index.html'}" in capsys.readouterr().out
    of_models = {"a/<i>&.onnx", "a/x.onnx", "a/deep/z.onnx", "b.onnx"}
    assert set(written(pages)) == {"index.html", *(f"{path}.html" for path in of_models)}
    index = (pages / "index.html").read_text(encoding="utf-8")
    assert {unquote(path) for path in re.findall(r'<a href="([^"]*)"', index)} == {f"{path}.html" for path in of_models}
    assert "5 models, 1 failed; 2 anchors lowered, 2 refused" in index
    assert '<th scope="row"><code>indices-source</code></th><td data-label="anchors">2</td>' in index
    assert "<i>" not in index
    assert "it does not parse as an ONNX model" in index
    html5lib.HTMLParser(strict=True).parse(index)


def test_inspect_prints_a_line_for_each(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(models / "f.onnx", parse("g (float[2,3,8] X) => (Y) { Y = MaxPool<kernel_shape = [2]>(X) }"))
    before = written(models)
    assert main(["inspect", str(models), "--jobs", "1"]) == 1
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "a/deep/z.onnx: inspected: 0 lowered, 1 refused",
        "a/x.onnx: inspected: 1 lowered, 0 refused",
        "b.onnx: inspected: 1 lowered, 0 refused",
        "f.onnx: inspected: 0 lowered, 0 refused; forward-graph",
        "5 models, 4 inspected, 1 failed; 2 anchors lowered, 1 refused",
        "refused: indices-source 1",
    ]
    assert written(models) == before
    assert main(["inspect", str(models), "--jobs", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [way["works"] for way in found["files"][2]["report"]["ways"]] == [True] * 4


def test_verify_two_folders(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    lower_folder(models, out, jobs=1)
    assert main(["verify", str(models), str(out), "--jobs", "2"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"a/bad.onnx: failed: it is not in '{out}'",
        "a/deep/z.onnx: unproven: no site: nothing to verify",
        "a/x.onnx: proven: 1 site",
        "b.onnx: proven: 1 site",
        "4 models, 2 proven, 1 without a site, 0 not proven, 1 failed",
    ]
    (models / "a" / "bad.onnx").unlink()
    pair = ["verify", str(models), str(out), "--jobs", "1"]
    assert main(pair) == 0
    capsys.readouterr()
    assert main([*pair, "--strict"]) == 1
    assert " 1 without a site (which --strict takes for a failure), " in capsys.readouterr().out
    assert main([*pair, "--strict", "-q"]) == 1
    assert capsys.readouterr() == ("", "poolgrad: unproven: a/deep/z.onnx: no site: nothing to verify\n")
    saved(models / "b.onnx", REFUSED)
    (models / "a" / "x.onnx").unlink()
    assert main([*pair, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] == {"files": 3, "passed": 1}
    assert [file["verification"] and file["verification"]["proven"] for file in found["files"]] == [True, None, False]
    assert found["files"][1]["error"] == f"it is not in '{models}'"


@pytest.mark.parametrize("place", ["a/deep", "a"])
def test_a_folder_that_cannot_be_read(
    models: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == models / place:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        results = lower_folder(models, tmp_path / "out", jobs=1)
    [failed] = [result for result in results if result.path == place]
    assert failed.error == f"cannot read '{models / place}': Permission denied"
    assert results[-1].written
    assert sorted(result.path for result in results) == [result.path for result in results]


@pytest.mark.parametrize("shown", [0, 3])
def test_an_interrupt_says_how_many_are_done(models: Path, shown: int) -> None:
    """A terminal interrupts the command and its processes together, also before the first model is done."""
    for number in range(200):
        saved(models / f"c{number}.onnx", GRADIENT)
    lowered = models.with_name("lowered")
    script = (
        "import signal, sys; from poolgrad_lowering.entry.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores in the background\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "lower", str(models), "-o", str(lowered), "--jobs", "2"]
    with subprocess.Popen(
        command,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for _ in range(shown):
            running.stdout.readline()
        while not lowered.exists():  # processes have begun
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGINT)
        errors = running.stderr.read()
    assert running.returncode == ExitCode.INTERRUPTED
    said = re.fullmatch(r"poolgrad: interrupted: (\d+) of 204 models done\n", errors)
    assert said is not None, errors
    failed = 1  # the first model, which is not one
    assert int(said[1]) == len(list(lowered.rglob("*.onnx"))) + failed
    assert int(said[1]) < 204
