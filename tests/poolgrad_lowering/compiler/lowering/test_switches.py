# SPDX-License-Identifier: Apache-2.0

"""The environment variables select the sites that are lowered, and dump their rewrites."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import FileError, lower
from tests.pool_graphs import parse, torch_gradient

MODEL = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
TWO_SITES = parse(
    """g (float[2,3,8] X, float[2,3,4] dY, float[2,3,4] dZ) => (A, B) {
        Y, I = MaxPool<kernel_shape = [2], strides = [2]>(X)
        A = MaxPoolGrad(dY, I)
        B = MaxPoolGrad(dZ, I)
    }"""
)


@pytest.mark.refusal("not-selected")
@pytest.mark.parametrize(
    ("globs", "codes"),
    [
        ("", [None, None]),
        ("main:A", [None, "not-selected"]),
        ("main:?", [None, None]),
        ("main:B, main:A", [None, None]),
        ("*:B", ["not-selected", None]),
        ("ort_*", [None, None]),
        ("torch_*", ["not-selected", "not-selected"]),
        ("MAIN:A", ["not-selected", "not-selected"]),
    ],
)
def test_only(monkeypatch: pytest.MonkeyPatch, globs: str, codes: list[str | None]) -> None:
    monkeypatch.setenv("POOLGRAD_ONLY", globs)
    report = lower(TWO_SITES).report
    assert [anchor.code for anchor in report.anchors] == codes
    assert all(anchor.pattern == "ort_max_pool_grad" for anchor in report.anchors)
    assert all(f"'{anchor.site}'" in (anchor.reason or "") for anchor in report.refused)


@pytest.mark.refusal("not-selected")
def test_a_pool_that_an_unselected_gradient_reads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOLGRAD_ONLY", "main:A")
    assert lower(TWO_SITES).report.anchors[0].forward_code == "forward-readers"


def test_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lower(MODEL).model.SerializeToString()
    folder = tmp_path / "a" / "dump"
    monkeypatch.setenv("POOLGRAD_DUMP", str(folder))
    assert lower(MODEL).model.SerializeToString() == expected
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(texts) == {f"{stem}.{moment}.txt" for stem in ("001-dX", "002-Y") for moment in ("before", "after")}
    graphs = {name: onnx.parser.parse_graph(text) for name, text in texts.items()}
    assert [node.op_type for node in graphs["001-dX.before.txt"].node][-1] == "Reshape"
    assert [node.op_type for node in graphs["001-dX.after.txt"].node].count("MaxPool3DGradWithArgmax") == 1
    assert [node.op_type for node in graphs["002-Y.before.txt"].node] == ["MaxPool"]
    assert [node.op_type for node in graphs["002-Y.after.txt"].node] == ["MaxPool3DWithArgmaxV2"]
    assert [value.name for value in graphs["002-Y.after.txt"].input] == ["X"]


def test_dumped_names_are_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelProto.FromString(MODEL.SerializeToString())
    model.graph.node[-1].name = "../../ö/" + "x" * 300
    monkeypatch.setenv("POOLGRAD_DUMP", str(tmp_path / "dump"))
    lower(model)
    assert len(list((tmp_path / "dump").iterdir())) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_a_dump_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("POOLGRAD_DUMP", str(tmp_path / "file"))
    with pytest.raises(FileError, match="cannot make"):
        lower(MODEL)
