# SPDX-License-Identifier: Apache-2.0

"""What is said where the sites are proven and the whole models did not run, or are not valid ONNX."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering import lower, verify
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.verification.running.validity import flaw_of
from tests.pool_graphs import ort_gradient, parse, torch_gradient

pytest.importorskip("onnxruntime")

POOL = torch_gradient([2, 3, 6, 6], kernel_shape=[2, 2], strides=[2, 2])
TRAINING = ort_gradient([2, 3, 6, 6], kernel_shape=[2, 2])
"""With MaxPoolGrad, which onnxruntime does not have."""

WRONG_NODES = {
    "type": "wrong_half = Cast <to = 10> (x) wrong = Add (x, wrong_half)",
    "drawn type": "wrong_index = Cast <to = 7> (x) wrong = RandomUniformLike (wrong_index)",
    "rank": "wrong = Gemm (x, x)",
}
"""Nodes beside a gradient that onnx's checker refuses, and no runtime takes."""


def invalid(model: ModelProto, nodes: str) -> ModelProto:
    changed = ModelProto()
    changed.CopyFrom(model)
    added = parse(f"g (float[1] x) => (wrong) {{ {nodes} }}").graph.node
    for node in added:
        node.input[:] = [model.graph.input[0].name if name == "x" else name for name in node.input]
    changed.graph.node.extend(added)
    return changed


def written(folder: Path, original: ModelProto) -> list[str]:
    paths = [folder / "original.onnx", folder / "lowered.onnx"]
    for path, model in zip(paths, (original, lower(original).model), strict=True):
        path.write_bytes(model.SerializeToString())
    return list(map(str, paths))


def test_the_result() -> None:
    ran, alone = verify(POOL, lower(POOL)), verify(TRAINING, lower(TRAINING))
    assert (ran.proven, ran.sites_only) == (True, False)
    assert (alone.proven, alone.sites_only) == (True, True)
    assert (ran.to_dict()["sites_only"], alone.to_dict()["sites_only"]) == (False, True)
    assert "whole model: not run" in repr(alone)
    assert verify(POOL, lower(POOL), whole_model=False).sites_only


@pytest.mark.parametrize(("model", "code", "says"), [(POOL, 0, False), (TRAINING, 4, True)])
def test_the_last_line_and_the_exit_code(
    model: ModelProto, code: int, says: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = written(tmp_path, model)
    assert main(["verify", *paths]) == code
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("1 site, 1 proven, 0 differences outside of sites")
    assert (", whole models not run; " in last) == says
    assert main(["verify", *paths, "--no-whole-model"]) == 0
    assert ", whole models not run; " in capsys.readouterr().out


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("original", "lowered"):
        (tmp_path / name).mkdir()
    for name, model in (("pool", POOL), ("training", TRAINING)):
        for path in map(Path, written(tmp_path, model)):
            path.rename(tmp_path / path.stem / f"{name}.onnx")
    folders = [str(tmp_path / "original"), str(tmp_path / "lowered")]
    assert main(["verify", *folders]) == 4
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "2 models, 2 proven (1 without a run of the whole models), 0 without a site, 0 not proven, 0 failed"
    assert main(["verify", *folders, "--no-whole-model"]) == 0


def test_lower_writes_what_onnxruntime_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [original, _] = written(tmp_path, TRAINING)
    out = tmp_path / "out.onnx"
    assert main(["lower", original, "-o", str(out), "--verify"]) == 0
    assert out.exists()
    [proof] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("proven: ")]
    assert "whole model: not run, at level default and ORT_DISABLE_ALL: onnxruntime does not run the original" in proof


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = verify(POOL, lower(POOL))
    assert (found.proven, found.sites_only) == (True, True)
    assert found.whole_model.reason == "onnxruntime is not installed"


@pytest.mark.parametrize(
    ("model", "name"), [*((POOL, name) for name in WRONG_NODES), (TRAINING, "type"), (TRAINING, "drawn type")]
)
def test_an_invalid_model_is_no_proof(model: ModelProto, name: str, tmp_path: Path) -> None:
    original = invalid(model, WRONG_NODES[name])
    found = verify(original, lower(original))
    assert [site.status for site in found.sites] == ["proven"]
    assert not found.proven
    assert found.differences[0].what.startswith("the original is not valid ONNX: ")
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    path.write_bytes(original.SerializeToString())
    assert main(["lower", str(path), "-o", str(out), "--verify"]) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("g (float[2] x) => (float[2] y) { y = OfARuntime (x) }", 18),
        ("g (float[2,4] x, float[4] s) => (float[2,4] y) { y = LayerNormalization (x, s) }", 15),
        ("g (bfloat16[1,1,4,4] x, bfloat16[1,1,1,1] w) => (bfloat16[1,1,4,4] y) { y = Conv (x, w) }", 18),
        ("g (float[2] x) => (float[2] y) { y = Relu (t) t = Relu (x) }", 18),
    ],
    ids=["foreign", "newer", "bfloat16", "order"],
)
def test_what_the_checker_passes_over(text: str, opset: int) -> None:
    assert flaw_of(parse(text, opset=opset)) is None
