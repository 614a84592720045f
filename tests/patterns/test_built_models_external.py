# SPDX-License-Identifier: Apache-2.0

"""PyTorch's default files: large tensors, the zeros of the gradients among them, are in external data."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from models import catalogue
from models.catalogue import Array, Entry
from poolgrad_lowering import Report, inspect, lower, lower_file, lower_folder, verify_files
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.external_models import DATA, move_out
from tests.oracles import assert_same_bits
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


def run(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """What onnxruntime computes of a file, with the data beside it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check_all_lowered(report: Report, entry: Entry) -> None:
    assert len(report.lowered) == entry.site_count
    one_hot = entry.refused.get("one-hot scatter of the loss", 0)
    assert [anchor.code for anchor in report.unrelated] == [Code.UNRELATED_INDICES.value] * one_hot
    assert not report.refused
    assert report.warnings == ()


def test_the_zeros_are_external() -> None:
    """Else the files show nothing."""
    for entry in ENTRIES:
        stored = onnx.load(entry.file, load_external_data=False).graph.initializer
        outside = [tensor.name for tensor in stored if tensor.data_location == onnx.TensorProto.EXTERNAL]
        assert outside
        assert entry.name.endswith("video_ceil") or any(name.startswith(("zeros", "full")) for name in outside), entry


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


@pytest.mark.parametrize("entry", ALL)
def test_a_copy_has_no_zeros_and_computes_the_same_bits(entry: Entry, tmp_path: Path) -> None:
    source = copied(entry, tmp_path / "in")
    [result] = lower_folder(tmp_path / "in", tmp_path / "out", jobs=1, copy_external=True)
    assert result.report is not None
    check_all_lowered(result.report, entry)
    written = tmp_path / "out" / source.name
    names = {tensor.name for tensor in onnx.load(written, load_external_data=False).graph.initializer}
    gone = [tensor for tensor in onnx.load(source).graph.initializer if tensor.name not in names]
    saved = sum(len(tensor.raw_data) for tensor in gone if len(tensor.raw_data) > 256)
    if data_of(written).exists():
        assert data_of(source).stat().st_size - data_of(written).stat().st_size == saved
    else:
        assert data_of(source).stat().st_size == saved
    found, expected = run(written, entry.feeds()), run(source, entry.feeds())
    for name, value in expected.items():
        assert_same_bits(found[name], value)
    verified = verify_files(source, written)
    assert verified.proven, (verified.differences, verified.first_failure)
    assert verified.whole_model.status == "same"


@pytest.mark.parametrize("entry", ALL)
def test_without_the_data_nothing_that_needs_it_is_lowered(entry: Entry, tmp_path: Path) -> None:
    source = copied(entry, tmp_path)
    data_of(source).unlink()
    report = lower_file(source, tmp_path / "lowered.onnx")
    [warning] = report.warnings
    assert warning.file == data_of(source).name
    assert len(report.lowered) + report.refused_by_code.get("external-data", 0) == entry.site_count
    assert entry.name.endswith("video_ceil") or report.refused_by_code["external-data"]


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


@pytest.mark.parametrize("name", ["lenet", "spatial_pyramid", "video_ceil"])
def test_what_the_installed_torch_exports(name: str, tmp_path: Path) -> None:
    """A joint graph, exported into a file with torch's own defaults."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from models import torch_joint, torch_nets

    net, source = torch_nets.NETS[name], tmp_path / f"{name}.onnx"
    _, arrays = torch_joint.export(net, source)
    assert data_of(source).exists()
    report = lower_file(source, tmp_path / "lowered.onnx", verify=True)
    assert len(report.lowered) == net.pools
    assert report.warnings == ()
    feeds = {key.removeprefix("in:"): array for key, array in arrays.items() if key.startswith("in:")}
    found, expected = run(tmp_path / "lowered.onnx", feeds), run(source, feeds)
    for output, value in expected.items():
        assert_same_bits(found[output], value)
