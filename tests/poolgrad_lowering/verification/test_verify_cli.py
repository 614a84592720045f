# SPDX-License-Identifier: Apache-2.0

"""`poolgrad verify` and `poolgrad lower --verify`: exit codes, what is printed, what is written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering import VerificationError, lower, lower_file, verify_files
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.console import ProgressBar
from poolgrad_lowering.model.gate.gate import Gate
from tests.pool_graphs import parse, torch_gradient
from tests.poolgrad_lowering.verification.sabotage import attributes

MODEL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])


def save(path: Path, model: ModelProto) -> str:
    path.write_bytes(model.SerializeToString())
    return str(path)


def wrong(model: ModelProto) -> ModelProto:
    """A lowered model whose pool has other windows than its gradient."""
    lowered = lower(model).model
    attributes("Y", onnx_dilations=[2, 2], onnx_pads=[0, 0, 1, 1])(lowered)
    return lowered


@pytest.fixture
def original(tmp_path: Path) -> str:
    return save(tmp_path / "original.onnx", MODEL)


@pytest.fixture
def lowered(tmp_path: Path) -> str:
    return save(tmp_path / "lowered.onnx", lower(MODEL).model)


@pytest.fixture
def broken(tmp_path: Path) -> str:
    return save(tmp_path / "broken.onnx", wrong(MODEL))


def test_a_site_that_differs(original: str, broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", original, broken, "--seed", "3", "--reproducer", str(tmp_path / "case")]) == 1
    printed = capsys.readouterr()
    assert "poolgrad: verify: site 'main:sums' differs (seed 3): run 0, output 'Y': " in printed.err
    assert f"reproducer in {tmp_path / 'case' / 'main_sums'}" in printed.err
    assert {path.name for path in (tmp_path / "case" / "main_sums").iterdir()} == {
        "inputs.npz",
        "lowered.onnx",
        "original.onnx",
    }
    assert (
        main(["verify", *(str(tmp_path / "case" / "main_sums" / name) for name in ("original.onnx", "lowered.onnx"))])
        == 1
    )


def test_json(original: str, broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", original, broken, "--json", "--no-whole-model", "--runs", "1"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["proven"] is False
    [site] = found["sites"]
    assert (site["name"], site["status"], site["runs"]) == ("main:sums", "differs", 1)
    assert site["mismatch"]["output"] == "Y"
    assert len(site["mismatch"]["index"]) == 4
    assert site["mismatch"]["max_ulp"] is None or site["mismatch"]["max_ulp"] > 0
    assert found["whole_model"] == {"status": "skipped", "reason": "not requested", "levels": []}


def test_a_difference_outside(original: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = lower(MODEL).model
    model.producer_name = "someone"
    assert main(["verify", original, save(tmp_path / "other.onnx", model)]) == 1
    printed = capsys.readouterr()
    assert "model: field 'producer_name' differs" in printed.out
    assert printed.err == "poolgrad: verify: model: field 'producer_name' differs\n"


def test_the_first_differences_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (
        parse(f"g (float[2] x) => (y) {{ {' '.join(f'[n{i}] y{i} = {op} (x)' for i in range(23))} y = Abs (x) }}")
        for op in ("Abs", "Neg")
    )
    paths = [save(tmp_path / "before.onnx", before), save(tmp_path / "after.onnx", after)]
    assert main(["verify", *paths, "--json"]) == 1
    count = len(json.loads(capsys.readouterr().out)["differences"])
    assert count > 20
    assert main(["verify", *paths]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("main: ") for line in printed) == 20
    assert printed[20] == f"and {count - 20} more differences; --json has all"


def test_exchanged_models(original: str, lowered: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says first that the files are exchanged, and only then; nothing is proven."""
    main(["verify", original, lowered])
    main(["verify", lowered, lowered])
    printed = capsys.readouterr()
    assert "exchanged" not in printed.out + printed.err
    assert main(["verify", lowered, original]) == 1
    printed = capsys.readouterr()
    exchanged = "the first model has nodes of domain npu, the second one has none: they are exchanged"
    assert printed.out.startswith(f"models: {exchanged}")
    assert f"poolgrad: verify: models: {exchanged}" in printed.err


@pytest.mark.parametrize(
    "arguments",
    [["--runs", "0"], ["--runs", "x"], ["--seed", "-1"], ["--backend", "gpu"]],
)
def test_bad_usage(original: str, lowered: str, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["verify", original, lowered, *arguments])
    assert stop.value.code == 2


def test_a_reproducer_that_cannot_be_written(
    original: str, broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["verify", original, broken, "--reproducer", str(tmp_path / "file")]) == 2
    assert "cannot write a reproducer into" in capsys.readouterr().err


def test_lower_and_verify(original: str, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    assert main(["lower", original, "-o", str(out), "--verify"]) == 0
    assert out.read_bytes() == lower(MODEL).model.SerializeToString()
    assert verify_files(original, out).proven


def test_lower_writes_nothing_that_is_not_proven(
    original: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serialised = Gate.serialised

    def miscompiled(gate: Gate, model: ModelProto) -> bytes:
        lowered = ModelProto.FromString(serialised(gate, model))
        attributes("Y", onnx_dilations=[2, 2], onnx_pads=[0, 0, 1, 1])(lowered)
        return lowered.SerializeToString()

    monkeypatch.setattr(Gate, "serialised", miscompiled)
    out = tmp_path / "out.onnx"
    out.write_bytes(b"as it was")
    assert main(["lower", original, "-o", str(out), "--verify"]) == 1
    assert "site 'main:sums' differs" in capsys.readouterr().err
    assert out.read_bytes() == b"as it was"
    with pytest.raises(
        VerificationError, match="not proven to compute the same as the original: site 'main:sums' differs"
    ):
        lower_file(original, out, verify=True)
    lower_file(original, out)
    assert out.read_bytes() != b"as it was"


def test_lower_without_sites_is_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolgrad_lowering.verification.verifier.verify", None)
    plain = save(tmp_path / "plain.onnx", parse("g (float[2] x) => (float[2] y) { y = Abs (x) }"))
    assert main(["lower", plain, "-o", str(tmp_path / "out.onnx"), "--verify"]) == 0


def test_the_bar_is_for_terminals() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown, hidden = Terminal(), io.StringIO()
    for stream in (shown, hidden):
        bar = ProgressBar(stream)
        bar(1, 4, "dX")
        bar(4, 4, "")
    assert hidden.getvalue() == ""
    first, last = shown.getvalue().split("\r\033[K")[1:]
    assert first == "[######                  ] 1/4 dX"
    assert last == ""


def test_names_that_would_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (ModelProto.FromString(model.SerializeToString()) for model in (MODEL, wrong(MODEL)))
    for model in (before, after):
        model.graph.node[-1].name = "\x1b[2Jsite\r"
        model.graph.input[0].doc_string = "what is said of it"
    after.graph.input[0].doc_string = "something else"
    after.metadata_props.add(key="\x1b[2J", value="\n")
    main(["verify", save(tmp_path / "before.onnx", before), save(tmp_path / "after.onnx", after), "--runs", "1"])
    printed = capsys.readouterr()
    assert (printed.out + printed.err).replace("\n", "").isprintable()
    bar = io.StringIO()
    bar.isatty = lambda: True  # type: ignore[method-assign]
    ProgressBar(bar)(0, 1, "\x1b[2Jsite\r")
    assert r"\x1b[2Jsite\r" in bar.getvalue()


@pytest.mark.parametrize("strict", [False, True])
def test_nothing_to_prove(original: str, lowered: str, strict: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal files, and files that differ in nothing that is compared, are not proven to be a lowering."""
    renamed = ModelProto.FromString(MODEL.SerializeToString())
    renamed.graph.node[0].name = "another"
    other = save(Path(original).with_name("other.onnx"), renamed)
    extra = ["--strict"] if strict else []
    for pair, said in (((lowered, lowered), "both files are the same, byte for byte"), ((original, other), "no site")):
        assert main(["verify", *pair, *extra]) == (1 if strict else 0)
        assert f"poolgrad: warning: {said}" in capsys.readouterr().err
    assert main(["verify", original, lowered, *extra]) == 0
    assert capsys.readouterr().err == ""
