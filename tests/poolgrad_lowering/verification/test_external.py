# SPDX-License-Identifier: Apache-2.0

"""Models with external data are verified from their files: it may lie elsewhere, and has to be the same."""

from __future__ import annotations

import logging
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering import lower_file, verify_files
from poolgrad_lowering.verification.outside import stored
from tests.external_models import DATA, external, onto_zeros, saved

WEIGHTS = bytes(range(64))
SIZE = 6 * 16 * 4


def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model with zeros and weights in external data, and its lowered form with a copy of the weights alone."""
    model = onto_zeros(external("", [6, 16], offset=0, length=SIZE))
    weights = external("w", [64], kind=TensorProto.UINT8, offset=SIZE, length=64)
    model.graph.initializer.append(weights)
    model.graph.node.append(onnx.helper.make_node("Identity", ["w"], ["W"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("W", TensorProto.UINT8, [64]))
    source = saved(tmp_path / "in", model, bytes(SIZE) + WEIGHTS)
    (tmp_path / "out").mkdir()
    written = tmp_path / "out" / "m.onnx"
    assert lower_file(source, written, copy_external=True, verify=True).lowered
    assert (tmp_path / "out" / DATA).read_bytes() == WEIGHTS
    return source, written


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether external data is loaded into the models or compared in its files."""
    if request.param == "large":
        monkeypatch.setattr(stored, "_LARGEST", 0)
    return str(request.param)


def test_data_in_another_file(tmp_path: Path, size: str) -> None:
    found = verify_files(*pair(tmp_path))
    assert found.proven, (found.differences, found.first_failure)
    assert [site.status for site in found.sites] == ["proven"]
    assert found.whole_model.status == ("same" if size == "small" else "skipped")


@pytest.mark.usefixtures("size")
def test_data_in_the_same_file(tmp_path: Path) -> None:
    source, _ = pair(tmp_path)
    lower_file(source, source.with_name("lowered.onnx"))
    assert verify_files(source, source.with_name("lowered.onnx")).proven


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("position", [0, 63])
def test_other_data(tmp_path: Path, position: int) -> None:
    source, written = pair(tmp_path)
    data = bytearray(WEIGHTS)
    data[position] ^= 1
    (written.parent / DATA).write_bytes(data)
    found = verify_files(source, written)
    assert [(one.where, one.what) for one in found.differences] == [("main", "initializer 'w' is changed")]


@pytest.mark.usefixtures("size")
def test_other_data_at_the_same_place(tmp_path: Path) -> None:
    """Both models name the same file and offset, each in its own folder."""
    source, _ = pair(tmp_path)
    lower_file(source, source.with_name("lowered.onnx"))
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "m.onnx").write_bytes(source.with_name("lowered.onnx").read_bytes())
    (moved / DATA).write_bytes(bytes(SIZE) + WEIGHTS[::-1])
    assert [one.what for one in verify_files(source, moved / "m.onnx").differences] == ["initializer 'w' is changed"]


@pytest.mark.usefixtures("size")
def test_data_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, written = pair(tmp_path)
    (written.parent / DATA).unlink()
    with caplog.at_level(logging.WARNING):
        found = verify_files(source, written)
    assert not found.proven
    assert f"{written}: main, 'w': external data '{DATA}' is not there" in caplog.text


def test_lower_with_verify_needs_the_data(tmp_path: Path) -> None:
    """The gradient's proof reads the zeros, the verification reads them again."""
    source, _ = pair(tmp_path)
    data = bytearray((source.parent / DATA).read_bytes())
    data[0] = 1
    (source.parent / DATA).write_bytes(data)
    found = lower_file(source, source, verify=True, strict=True)
    assert [anchor.code for anchor in found.anchors] == ["base-not-zero"]
