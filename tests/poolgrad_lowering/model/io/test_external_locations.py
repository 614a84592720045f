# SPDX-License-Identifier: Apache-2.0

"""External data is read only in the model's folder, wherever locations and links lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering import InvalidModelError, inspect
from poolgrad_lowering.entry.files import inspect_file
from poolgrad_lowering.model.io.external_data import UnreadableError
from poolgrad_lowering.model.ir.external import ModelFolder
from tests.external_models import DATA, SIZE, ZEROS, anchor, external, onto_zeros, reader, saved


def attacked(tmp_path: Path, location: str = DATA) -> tuple[Path, ModelProto]:
    """A model whose zeros are at `location`, and a file of zeros outside its folder that a link may lead to."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / DATA).write_bytes(bytes(SIZE))
    folder = tmp_path / "in"
    folder.mkdir()
    return folder, onto_zeros(external("", [6, 16], location))


@pytest.mark.parametrize("location", ["../secret/m.onnx.data", "/dev/zero", "more/../../secret/m.onnx.data", "\0", ""])
def test_locations_that_leave_the_folder(tmp_path: Path, location: str) -> None:
    folder, model = attacked(tmp_path, location)
    with pytest.raises(InvalidModelError):
        inspect(model, base_dir=folder)
    with pytest.raises(UnreadableError):  # also without the gate
        reader(folder).is_zero(external("z", [6, 16], location))


@pytest.mark.parametrize("target", ["../secret/m.onnx.data", "/dev/zero", "/proc/self/mem", "/proc/self/fd/0"])
def test_links_that_leave_the_folder(tmp_path: Path, target: str) -> None:
    folder, model = attacked(tmp_path)
    (folder / DATA).symlink_to(target)
    with pytest.raises(InvalidModelError, match="a link to"):
        inspect(model, base_dir=folder)
    with pytest.raises(UnreadableError, match="links lead out of the folder"):
        reader(folder).is_zero(ZEROS)


def test_a_link_of_a_folder_that_leaves_the_folder(tmp_path: Path) -> None:
    folder, model = attacked(tmp_path, "more/m.onnx.data")
    (folder / "more").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidModelError, match="a link to"):
        inspect(model, base_dir=folder)
    with pytest.raises(UnreadableError, match="links lead out of the folder"):
        reader(folder).is_zero(external("z", [6, 16], "more/m.onnx.data"))


def test_links_within_the_folder(tmp_path: Path) -> None:
    folder, model = attacked(tmp_path, "more/m.onnx.data")
    (folder / "data").mkdir()
    (folder / "data" / DATA).write_bytes(bytes(SIZE))
    (folder / "more").symlink_to("data")
    assert anchor(model, folder).status == "lowered"


def test_a_store_of_models(tmp_path: Path) -> None:
    """Data is found if the model and its data are links into one folder."""
    path = saved(tmp_path / "store", onto_zeros(ZEROS), bytes(SIZE))
    (tmp_path / "models").mkdir()
    for name in ("m.onnx", DATA):
        (tmp_path / "models" / name).symlink_to(path.parent / name)
    assert inspect_file(tmp_path / "models" / "m.onnx").lowered


@pytest.mark.refusal("external-data")
@pytest.mark.parametrize("exchanged", ["file", "folder", "pipe"])
def test_a_file_that_is_exchanged_after_it_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanged: str
) -> None:
    folder, model = attacked(tmp_path, "more/m.onnx.data")
    saved(folder, model, bytes(SIZE), "more/m.onnx.data")
    original, resolved = ModelFolder.resolve, []

    def resolve(self: ModelFolder, location: str) -> Path:
        found = original(self, location)
        resolved.append(location)
        if len(resolved) == 2:  # once by the gate, once for reading, once for warnings
            (folder / "more" / DATA).unlink()
            if exchanged == "file":
                (folder / "more" / DATA).symlink_to(tmp_path / "secret" / DATA)
            elif exchanged == "pipe":
                os.mkfifo(folder / "more" / DATA)
            else:
                (folder / "more").rmdir()
                (folder / "more").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(ModelFolder, "resolve", resolve)
    assert anchor(model, folder).code == "external-data"
    assert len(resolved) == 3


@pytest.mark.skipif(not Path("/dev/zero").exists() or os.geteuid() != 0, reason="only root makes devices")
def test_a_device(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / DATA, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("no devices may be made here")
    assert (anchor(onto_zeros(ZEROS), tmp_path).reason or "").endswith(
        "it is not a regular file; put the file beside the model"
    )
