# SPDX-License-Identifier: Apache-2.0

"""The command line, called as a function and, where the process matters, as one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

import poolgrad_lowering
from poolgrad_lowering import Limits, lower
from poolgrad_lowering.dialect.targets import TARGETS
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.patterns import all_forms
from tests.external_models import DATA, external, onto_zeros
from tests.harness.processes import environment
from tests.pool_graphs import GRADIENT, REFUSED, parse, saved, torch_gradient
from tests.poolgrad_lowering.report.test_notes import AVERAGE


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return saved(tmp_path / "good.onnx", GRADIENT)


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    return saved(tmp_path / "refused.onnx", REFUSED)


def scattered_to(name: str) -> ModelProto:
    """The gradient, whose scattered value has this name."""
    model = ModelProto.FromString(GRADIENT.SerializeToString())
    model.graph.node[-2].output[0] = model.graph.node[-1].input[0] = name
    return model


def process(*arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "poolgrad_lowering.entry.cli", *map(str, arguments)],
        env=environment() | options,
        capture_output=True,
        text=True,
        check=False,
    )


def test_lower(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = good.with_name("out.onnx")
    assert main(["lower", str(good), "-o", str(out)]) == 0
    assert out.read_bytes() == lower(GRADIENT).model.SerializeToString()
    printed = capsys.readouterr().out
    assert "MaxPool3DGradWithArgmax ksize=1,2,2 strides=1,2,2 pads=0,0,0 dilation=1,1,1 ceil_mode=0" in printed
    assert "target atlas-a2: 1 anchor, 1 lowered, 0 refused" in printed
    assert f"wrote {out}" in printed


def test_no_forward(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = good.with_name("out.onnx")
    assert main(["inspect", str(good)]) == 0
    assert "; pool: MaxPool3DWithArgmaxV2" in capsys.readouterr().out
    assert main(["lower", str(good), "-o", str(out), "--no-forward"]) == 0
    assert out.read_bytes() == lower(GRADIENT, forward=False).model.SerializeToString()
    assert main(["inspect", str(good), "--no-forward"]) == 0
    assert "; pool" not in capsys.readouterr().out


def test_a_pool_that_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dilated = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], dilations=[2, 2])
    assert main(["inspect", str(saved(tmp_path / "m.onnx", dilated))]) == 0
    reason = "Atlas A2 training and inference does not support dilation in a forward pool"
    assert f"ceil_mode=0 data_format=NCDHW; pool stays: {reason}\n" in capsys.readouterr().out


@pytest.mark.parametrize("same", ["in", "out", "link"])
def test_a_report_over_a_model(good: Path, same: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = good.with_name("out.onnx")
    good.with_name("link.onnx").hardlink_to(good)
    report = {"in": good, "out": out, "link": good.with_name("link.onnx")}[same]
    assert main(["lower", str(good), "-o", str(out), "--report", str(report)]) == 2
    assert "that is the model; give it a file of its own" in capsys.readouterr().err
    assert good.read_bytes() == GRADIENT.SerializeToString()
    assert not out.exists()


@pytest.mark.parametrize("limit", [field.name for field in fields(Limits) if field.name != "max_external_bytes"])
def test_limits(good: Path, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    flag = f"--{limit.replace('_', '-')}"
    assert main(["inspect", str(good), flag, "1000000"]) == 0
    assert main(["lower", str(good), "-o", str(good), "--in-place", flag, "-1"]) == 2
    assert "more than -1" in capsys.readouterr().err


def test_external_data_that_is_not_read(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the file is not there and where the limit forbids to read it: a refusal; the former is a warning too."""
    model, data = str(saved(good, onto_zeros(external("", [6, 16])))), good.parent / DATA
    for extra, warned in ((["--json"], True), (["--quiet"], False), ([], True)):
        assert main(["inspect", model, *extra]) == 0
        printed = capsys.readouterr()
        warning = f"poolgrad: warning: main, 'zeros': external data '{DATA}' is not there: No such file or directory\n"
        assert printed.err == (warning if warned else "")
        assert "external-data" in printed.out
    data.write_bytes(bytes(6 * 16 * 4))
    assert main(["inspect", model, "--max-external-bytes", "10"]) == 0
    printed = capsys.readouterr()
    assert "raise the limit max_external_bytes" in printed.out
    assert printed.err == ""
    assert main(["lower", model, "-o", model, "--in-place", "--strict"]) == 0


def test_warnings_of_a_folder_name_the_model(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = good.parent / "in" / "deep"
    source.mkdir(parents=True)
    saved(source / "m.onnx", onto_zeros(external("", [6, 16])))
    (source / DATA).write_bytes(bytes(10))
    arguments = ["lower", str(source.parent), "-o", str(good.parent / "out"), "--jobs", "1", "--copy-external"]
    assert main(arguments) == 0
    assert "poolgrad: warning: deep/m.onnx: main, 'zeros': external data" in capsys.readouterr().err


def test_strict(good: Path, refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = good.with_name("out.onnx"), good.with_name("report.json")
    assert main(["lower", str(refused), "-o", str(out), "--strict", "--report", str(report)]) == 1
    assert not out.exists()
    assert json.loads(report.read_text())["summary"]["refused_by_code"] == {"indices-source": 1}
    captured = capsys.readouterr()
    assert "1 anchor refused, no model written" in captured.err
    assert "wrote" not in captured.out
    assert main(["lower", str(refused), "-o", str(out)]) == 0
    assert out.read_bytes() == REFUSED.SerializeToString()
    assert main(["lower", str(good), "-o", str(out), "--strict"]) == 0


def test_inspect(good: Path, refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in good.parent.iterdir()}
    assert main(["inspect", str(refused)]) == 0
    reason = "indices come from 'I', an input; if a forward graph computes them, merge the two graphs first"
    assert f"indices-source: {reason}" in capsys.readouterr().out
    assert main(["inspect", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["lowered"] == 1
    assert main(["inspect", str(good), "--target", "Ascend910B"]) == 0
    assert "refused  target: Atlas training has no" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in good.parent.iterdir()} == before


def test_inspect_says_what_lower_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same options both have the gradient as a node of the dialect, or both do not."""
    model, out = str(saved(tmp_path / "m.onnx", onnx.parser.parse_model(AVERAGE))), tmp_path / "out.onnx"
    for options, nodes in ([], 1), (["--keep-onnx"], 0):
        assert main(["lower", model, "-o", str(out), *options]) == 0
        assert sum(node.domain == "npu" for node in onnx.load(out).graph.node) == nodes
        capsys.readouterr()
        assert main(["inspect", model, "--json", *options]) == 0
        placement = json.loads(capsys.readouterr().out)["placement"]
        assert next(place["nodes"] for place in placement["places"] if place["place"] == "provider") == nodes


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
def test_a_model_is_replaced_only_in_place(good: Path, link: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = good.with_name("link.onnx") if link else good
    if link == "symbolic":
        out.symlink_to(good.name)
    elif link == "hard":
        out.hardlink_to(good)
    for command in ("lower", "export-atc"):
        assert main([command, str(good), "-o", str(out)]) == 2
        assert "is the model itself: give another name, or replace it with --in-place" in capsys.readouterr().err
        assert good.read_bytes() == GRADIENT.SerializeToString()
    assert main(["lower", str(good), "-o", str(out), "--in-place"]) == 0
    assert out.read_bytes() == lower(GRADIENT).model.SerializeToString()


def test_notes_are_on_standard_output_and_warnings_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forward = parse("g (float[2,3,8] X) => (Y) { Y = MaxPool<kernel_shape = [2]>(X) }")
    model = str(saved(tmp_path / "m.onnx", forward))
    out = str(tmp_path / "out.onnx")
    for arguments in (["inspect", model], ["lower", model, "-o", out]):
        assert main([*arguments, "--target", "Ascend910B"]) == 0
        printed = capsys.readouterr()
        assert printed.out.startswith(
            "note: no node has a known form of a pool's gradient, as in a forward graph: 1 MaxPool"
        )
        assert printed.err.startswith("poolgrad: warning: Atlas training has no operator for the gradient of a pool")
        assert printed.err.count("\n") == 1
    assert main(["inspect", model, "--json"]) == 0
    assert [note["code"] for note in json.loads(capsys.readouterr().out)["notes"]] == ["forward-graph"]
    assert main(["lower", model, "-o", out, "--quiet", "--target", "Ascend910B"]) == 0
    assert capsys.readouterr() == ("", "")


def test_what_is_proven_is_printed(
    good: Path, refused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out.onnx")
    assert main(["lower", str(good), "-o", out, "--verify"]) == 0
    *_, proven, wrote = capsys.readouterr().out.splitlines()
    assert proven == "proven: 1 site by 9 runs, no difference outside of sites, whole model: same"
    assert wrote == f"wrote {out}"
    assert main(["lower", str(refused), "-o", out, "--verify"]) == 0
    assert "\nproven: nothing was lowered, the model is its source\n" in capsys.readouterr().out
    assert main(["lower", str(good), "-o", out]) == 0
    assert main(["lower", str(good), "-o", out, "--verify", "--quiet"]) == 0
    assert main(["lower", str(good), "-o", out, "--verify", "--json"]) == 0
    assert "proven: " not in capsys.readouterr().out


def test_a_folder_says_of_which_models_something_is_proven(
    good: Path, refused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for model in (good, refused):
        model.rename(models / model.name)
    assert main(["lower", str(models), "-o", str(tmp_path / "out"), "--verify", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "good.onnx: written: 1 lowered, proven, 0 refused",
        "refused.onnx: written: 0 lowered, 1 refused",
    ]


def test_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patterns"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["pattern", "anchors", "form"]
    assert [row.split()[0] for row in rows] == [pattern.name for pattern in all_forms()]


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "target"
    assert [row.split()[0] for row in rows] == list(TARGETS)
    assert ["atlas-a2 (default)" in row for row in rows].count(True) == 1
    assert max(map(len, rows)) < 100
    assert [" refused " in row for row in rows] == [not target.operators for target in TARGETS.values()]


@pytest.mark.parametrize("name", ["atlas-a2", "Ascend910B3", "ascend910b3"])
def test_details_of_a_target(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", name]) == 0
    name_row, title, socs, header, *rows = capsys.readouterr().out.splitlines()
    target = TARGETS["atlas-a2"]
    assert name_row == "target     atlas-a2 (default)"
    assert title == f"product    {target.title}"
    assert socs == f"SoC names  {', '.join(target.socs)}"
    assert header.startswith("operator of domain npu")
    assert [row.split()[0] for row in rows] == list(target.operators)
    adaptive = rows[list(target.operators).index("AdaptiveMaxPool3DGrad")]
    assert "aclnnAdaptiveMaxPool2dBackward, aclnnAdaptiveMaxPool3dBackward" in adaptive
    assert adaptive.endswith("float32, float16, bfloat16  16777216")


def test_a_target_without_operators_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "ascend350"]) == 0
    assert capsys.readouterr().out.endswith("no operators: every gradient is refused\n")
    assert main(["targets", "910B3"]) == 2
    assert "unknown target '910B3' (did you mean Ascend910B3?)" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "count"), [((), len(TARGETS)), (("Ascend910B3",), 1)])
def test_targets_as_json(arguments: tuple[str, ...], count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["default"] == "atlas-a2"
    assert len(found["targets"]) == count
    [target] = [target for target in found["targets"] if target["name"] == "atlas-a2"]
    assert target["socs"] == list(TARGETS["atlas-a2"].socs)
    assert (
        target["operators"] == [support["name"] for support in target["support"]] == list(TARGETS["atlas-a2"].operators)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lower", "absent.onnx", "-o", "out.onnx"], "cannot read 'absent.onnx': No such file or directory"),
        (["inspect", "absent.onnx"], "cannot read 'absent.onnx': No such file or directory"),
        (["inspect", ".", "--plan", "plan.json"], "--plan is for one model, not for a folder"),
        (["inspect", "empty.onnx"], "'empty.onnx': it is empty (not-onnx)"),
        (["inspect", "garbage.onnx"], "'garbage.onnx': it does not parse as an ONNX model (not-onnx)"),
        (["lower", "good.onnx", "-o", "absent/out.onnx"], "the folder 'absent' does not exist; create it first"),
        (["lower", ".", "-o", "."], "cannot write below '.': it contains '.' or lies in it; use separate folders"),
        (["export-torch", "absent.py:f", "-o", "out.onnx"], "the file 'absent.py' does not exist"),
        (["export-torch", ".:f", "-o", "out.onnx"], "'.' is not a file"),
        (["export-torch", "good.onnx:f", "-o", "absent/out.onnx"], "the folder 'absent' does not exist; create it"),
        (["lower", "good.onnx", "-o", "."], "cannot write"),
        (["lower", "good.onnx", "-o", "out.onnx", "--target", "Ascend910B33"], "did you mean Ascend910B3?"),
        (["inspect", "good.onnx", "--target", ""], "unknown target ''"),
    ],
)
def test_bad_input(
    good: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(good.parent)
    Path("empty.onnx").touch()
    Path("garbage.onnx").write_bytes(b"garbage" * 9)
    before = sorted(path.name for path in good.parent.iterdir())
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("poolgrad: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(path.name for path in good.parent.iterdir()) == before


@pytest.mark.parametrize("arguments", [["lower"], ["lower", "a.onnx"], ["raise"], ["inspect", "a", "b"], ["--what"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: poolgrad" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"poolgrad {poolgrad_lowering.__version__}\n"


# -- as a process


def test_names_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", scattered_to("größe"))
    done = process("inspect", path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout


@pytest.mark.parametrize("count", ["0", "-3", "x"])
def test_a_count_says_its_least_number(capsys: pytest.CaptureFixture[str], count: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", "a.onnx", "b.onnx", f"--runs={count}"])
    assert ended.value.code == 2
    assert f"argument --runs: '{count}' is not an integer of 1 or more" in capsys.readouterr().err
