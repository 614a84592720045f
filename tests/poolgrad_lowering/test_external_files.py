"""External data as files: copied where that is asked for, and never out of a folder or over a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto
from pool_graphs import torch_gradient

from poolgrad_lowering import Fault, FileError, InvalidModelError, lower_file
from poolgrad_lowering.files import inspect_file

DATA = bytes(range(8))


def saved(folder: Path, *locations: str) -> Path:
    """A model in a folder of its own, with tensors in these files, which are there."""
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    folder.mkdir(parents=True, exist_ok=True)
    for number, location in enumerate(locations):
        tensor = TensorProto(
            name=f"W{number}", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=location)
        model.graph.initializer.append(tensor)
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(DATA)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_copied_where_asked(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "w.bin", "more/w.bin", "w.bin"), tmp_path / "out"
    out.mkdir()
    with pytest.raises(FileError, match=r"--copy-external, copy_external=True"):
        lower_file(source, out / "m.onnx")
    assert not files(out)
    assert lower_file(source, out / "m.onnx", copy_external=True).lowered
    assert files(out).keys() == {"m.onnx", "w.bin", "more/w.bin"}
    assert files(out)["w.bin"] == files(out)["more/w.bin"] == DATA
    assert len(ModelProto.FromString(files(out)["m.onnx"]).graph.initializer) >= 3
    lower_file(source, out / "m.onnx", copy_external=True)  # equal files may be there
    lower_file(source, source, copy_external=True)


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "a.bin", "b.bin"), tmp_path / "out"
    out.mkdir()
    (out / "b.bin").write_bytes(b"of another model")
    with pytest.raises(FileError, match=r"b\.bin' is there with other content: remove it"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert files(out) == {"b.bin": b"of another model"}


@pytest.mark.parametrize("what", ["nothing", "folder", "pipe"])
def test_what_cannot_be_copied(tmp_path: Path, what: str) -> None:
    source, out = saved(tmp_path / "in", "w.bin"), tmp_path / "out"
    out.mkdir()
    (source.parent / "w.bin").unlink()
    if what == "folder":
        (source.parent / "w.bin").mkdir()
    elif what == "pipe":
        os.mkfifo(source.parent / "w.bin")
    with pytest.raises(FileError, match=r"cannot copy '.*/in/w\.bin', in which the model keeps tensors"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert not files(out)
    assert lower_file(source, source).lowered  # data is not needed


def test_links_out_of_the_output_folder(tmp_path: Path) -> None:
    source, out = saved(tmp_path / "in", "more/w.bin"), tmp_path / "out"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="links lead out"):
        lower_file(source, out / "m.onnx", copy_external=True)
    assert not files(tmp_path / "elsewhere")


@pytest.mark.fault("external-location")
@pytest.mark.parametrize("link", ["file", "folder"])
def test_links_out_of_the_model_folder(tmp_path: Path, link: str) -> None:
    source = saved(tmp_path / "in", "more/w.bin")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "w.bin").write_bytes(b"not yours")
    (source.parent / "more" / "w.bin").unlink()
    if link == "file":
        (source.parent / "more" / "w.bin").symlink_to(tmp_path / "secret" / "w.bin")
    else:
        (source.parent / "more").rmdir()
        (source.parent / "more").symlink_to(tmp_path / "secret")
    for call in (lambda: lower_file(source, source), lambda: inspect_file(source)):
        with pytest.raises(InvalidModelError, match=r"'W0'.*which links lead to") as caught:
            call()
        assert caught.value.fault == Fault.EXTERNAL_LOCATION


def test_a_store_of_models(tmp_path: Path) -> None:
    """Model and data are both links into one folder: they belong together there."""
    source = saved(tmp_path / "store", "w.bin")
    (tmp_path / "models").mkdir()
    for name in ("m.onnx", "w.bin"):
        (tmp_path / "models" / name).symlink_to(source.parent / name)
    assert inspect_file(tmp_path / "models" / "m.onnx").lowered


@pytest.mark.parametrize("option", ["destination", "report_path"])
def test_output_over_the_data(tmp_path: Path, option: str) -> None:
    source = saved(tmp_path, "w.bin")
    paths = {"destination": tmp_path / "out.onnx"} | {option: tmp_path / "w.bin"}
    with pytest.raises(FileError, match="keeps tensors in it"):
        lower_file(source, **paths)  # type: ignore[arg-type]
    assert files(tmp_path).keys() == {"m.onnx", "w.bin"}
    assert files(tmp_path)["w.bin"] == DATA
