# SPDX-License-Identifier: Apache-2.0

"""PyTorch's default files: large tensors, the zeros of the gradients among them, are in external data."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import Report, inspect, lower, lower_file
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.external_models import DATA, move_out
from tests.patterns.lowering_checks import TARGETS

ENTRIES = catalogue.external()
ALL = [pytest.param(entry, id=entry.name) for entry in ENTRIES]
EVERY = [
    pytest.param(entry, id=entry.name)
    for entry in (*catalogue.entries(), *catalogue.spellings(), *catalogue.external())
]


def copied(entry: Entry, folder: Path) -> Path:
    """A built graph and its data in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (entry.file, data_of(entry.file)):
        shutil.copyfile(file, folder / file.name)
    return folder / entry.file.name


def data_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.data")


def check_all_lowered(report: Report, entry: Entry) -> None:
    assert len(report.lowered) == entry.site_count
    one_hot = entry.refused.get("one-hot scatter of the loss", 0)
    assert [anchor.code for anchor in report.unrelated] == [Code.UNRELATED_INDICES.value] * one_hot
    assert not report.refused
    assert report.warnings == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", ALL)
def test_every_gradient_is_lowered(entry: Entry, target: str, tmp_path: Path) -> None:
    source = copied(entry, tmp_path)
    lowered = tmp_path / "lowered.onnx"
    check_all_lowered(lower_file(source, lowered, target=target, verify=True), entry)
    assert data_of(source).read_bytes() == data_of(entry.file).read_bytes()
    model = onnx.load(source, load_external_data=False)
    result = lower(model, target=target, base_dir=tmp_path)
    assert result.model.SerializeToString() == lowered.read_bytes()
    assert {anchor.code for anchor in inspect(model, target=target).refused} >= {
        "external-data" for tensor in model.graph.initializer if tensor.name == "zeros" and tensor.data_location
    }


@pytest.mark.parametrize("entry", EVERY)
def test_every_constant_of_every_form_may_be_external(entry: Entry, tmp_path: Path) -> None:
    """Shapes, bounds, tables and zeros: the verdicts are those of the graph with its constants inside."""
    expected = inspect(onnx.load(entry.file)).anchors
    model = move_out(onnx.load(entry.file), tmp_path)
    assert inspect(model, base_dir=tmp_path).anchors == expected
    (tmp_path / DATA).unlink()
    found = inspect(model, base_dir=tmp_path).anchors
    assert [anchor.site for anchor in found] == [anchor.site for anchor in expected]
    for before, after in zip(expected, found, strict=True):
        assert after.code == "external-data" or (after.status, after.code) == (before.status, before.code)
