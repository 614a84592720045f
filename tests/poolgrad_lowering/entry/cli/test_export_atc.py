# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-atc`: what it prints, what it writes, and when it writes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import onnxruntime
import pytest

from poolgrad_lowering import export_atc
from poolgrad_lowering.entry.cli import main
from tests.pool_graphs import GRADIENT, parse, saved

STORED = Path(__file__).parents[4] / "models" / "built" / "torch_external" / "lenet.onnx"
STOPPED = parse(
    """g (float[1,1,H,4] X) => (float[1,1,P,2] Y, int64[1,1,P,2] I) {
        [pool] Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    }"""
)


def test_a_model_that_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = saved(tmp_path / "m.onnx", GRADIENT), tmp_path / "e.onnx"
    assert main(["export-atc", str(source), "-o", str(out), "--target", "Ascend910B3"]) == 0
    assert onnx.load(out) == export_atc(GRADIENT, target="Ascend910B3").model
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"wrote {out}, in which no obstacle is known. To convert it with CANN 9.0.0 or newer:"
    assert printed[1] == f"  cd {tmp_path}"
    [command] = [line for line in printed if "--framework" in line]
    assert command.startswith("  atc --framework=5 --model=e.onnx --output=e --soc_version=Ascend910B3 ")
    [header] = [line for line in printed if line.split() == ["anchor", "status", "what"]]
    assert printed.index(command) < printed.index(header)
    assert printed[-1].startswith("target atlas-a2: 1 anchor, 1 lowered, 0 refused; ")


def test_no_folder_is_entered_for_a_model_in_the_current_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "m.onnx", GRADIENT)
    monkeypatch.chdir(tmp_path)
    assert main(["export-atc", "m.onnx", "-o", "e.onnx"]) == 0
    assert "  cd " not in capsys.readouterr().out
    (tmp_path / "sub").mkdir()
    assert main(["export-atc", "m.onnx", "-o", "sub/e.onnx"]) == 0
    assert "\n  cd sub\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [[], ["m.onnx"], ["-o", "e.onnx"], ["m.onnx", "--plugin", "d"], ["m.onnx", "-o", "e.onnx", "--machine", "x86_64"]],
)
def test_a_model_or_the_plugin(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`tests/atc/test_plugin_folder.py` writes the plugin."""
    assert main(["export-atc", *words]) == 2
    assert (
        capsys.readouterr().err
        == "poolgrad: error: give a model with -o OUT.onnx, or --plugin DIR alone or with --machine\n"
    )


@pytest.mark.parametrize("command", ["export-atc", "export-cann"])
def test_what_is_proven_is_printed(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [command, str(saved(tmp_path / "m.onnx", GRADIENT)), "-o", str(tmp_path / "e.onnx")]
    assert main([*arguments, "--verify"]) == 0
    proven, wrote, *_ = capsys.readouterr().out.splitlines()
    assert proven == "proven: 1 site by 9 runs, no difference outside of sites, whole model: same"
    assert wrote.startswith("wrote ")
    assert main(arguments) == 0
    assert "proven: " not in capsys.readouterr().out


def test_symbolic_sizes_have_to_be_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = parse("g (float[N,3,4,4] X) => (Y) { Y = Relu(X) }")
    for name, source in (("fixed", GRADIENT), ("symbolic", model)):
        given = saved(tmp_path / f"{name}.onnx", source)
        assert main(["export-atc", str(given), "-o", str(tmp_path / "e.onnx")]) == 0
        printed = capsys.readouterr().out.splitlines()
        [position] = [number for number, line in enumerate(printed) if "--framework" in line]
        before, command = printed[position - 1], printed[position]
        is_symbolic = name == "symbolic"
        assert ("--input_shape=X:N,3,4,4" in command) == is_symbolic
        assert (before == "  # replace each size in --input_shape that is a name by a number") == is_symbolic


def test_a_model_that_does_not_convert_is_written_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = saved(tmp_path / "m.onnx", STOPPED), tmp_path / "e.onnx"
    report = tmp_path / "report.json"
    assert main(["export-atc", str(source), "-o", str(out), "--report", str(report)]) == 1
    captured = capsys.readouterr()
    assert "pool  MaxPool   kept-indices: its Indices output 'I' is read" in captured.out
    assert "atc: 1 obstacle to a conversion; no model written (--force writes it)" in captured.err
    assert not out.exists()
    assert json.loads(report.read_text())["obstacles"][0]["node"] == "pool"
    assert main(["export-atc", str(source), "-o", str(out), "--force"]) == 1
    assert out.read_bytes() == export_atc(STOPPED).model.SerializeToString()


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = saved(tmp_path / "m.onnx", GRADIENT), tmp_path / "e.onnx"
    assert main(["export-atc", str(source), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["converts"], found["edits"]["raised"], found["lowering"]["target"]) == (True, 2, "atlas-a2")


def test_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = saved(tmp_path / "m.onnx", STOPPED), tmp_path / "e.onnx"
    assert main(["export-atc", str(source), "-o", str(out), "-q"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 obstacle" in captured.err


def test_inputs_with_defaults_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(tmp_path / "m.onnx", parse("g (float[2] X, float[2] W = {1.0, 2.0}) => (Y) { Y = Mul(X, W) }"))
    arguments = ["export-atc", str(source), "-o", str(tmp_path / "e.onnx")]
    assert main(arguments) == 0
    assert "warning: W: ATC makes a constant of this input" in capsys.readouterr().err
    assert main([*arguments, "--weights-as-inputs", "W"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*arguments, "--weights-as-inputs", "V"]) == 2
    assert "'V' matches no floating-point initializer" in capsys.readouterr().err


@pytest.mark.parametrize("report", ["m.onnx", "e.onnx"])
def test_the_report_has_a_file_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str], report: str) -> None:
    source, out = saved(tmp_path / "m.onnx", GRADIENT), tmp_path / "e.onnx"
    arguments = ["export-atc", str(source), "-o", str(out), "--report", str(tmp_path / report)]
    assert main(arguments) == 2
    assert "give it a file of its own" in capsys.readouterr().err
    assert source.read_bytes() == GRADIENT.SerializeToString()
    assert not out.exists()


@pytest.mark.parametrize("command", ["export-atc", "export-cann"])
def test_a_model_without_its_external_data(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    shutil.copyfile(STORED, source := tmp_path / "m.onnx")
    arguments = [command, str(source), "-o", str(tmp_path / "e.onnx")]
    assert main(arguments) == 2
    assert "external data 'lenet.onnx.data' is not there" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]
    assert main([*arguments, "--force"]) == 0


def test_external_data_goes_with_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "there" / "m.onnx"
    source.parent.mkdir()
    shutil.copyfile(STORED, source)
    shutil.copyfile(f"{STORED}.data", source.with_name(f"{STORED.name}.data"))
    arguments = ["export-atc", str(source), "-o", str(tmp_path / "e.onnx")]
    assert main(arguments) == 2
    assert "copy the files (--copy-external, copy_external=True)" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]
    assert main([*arguments, "--copy-external"]) == 0
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x", "t"]
