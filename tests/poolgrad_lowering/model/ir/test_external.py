# SPDX-License-Identifier: Apache-2.0

"""A reference to external data is a file in the model's folder, an offset, and the tensor's length."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import StringStringEntryProto, TensorProto

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.model.ir.external import (
    ModelFolder,
    Reference,
    external_flaw,
    link_flaw,
)
from poolgrad_lowering.model.ir.tensors import external_reference

MOST = 2**63 - 1


def entries(*pairs: tuple[str, str]) -> list[StringStringEntryProto]:
    return [StringStringEntryProto(key=key, value=value) for key, value in pairs]


def not_utf8(key: str) -> StringStringEntryProto:
    """An entry whose value is a byte that is no text."""
    content = StringStringEntryProto(key=key, value="#").SerializeToString()
    return StringStringEntryProto.FromString(content.replace(b"#", b"\xff"))


LOCATIONS = {
    "": "which is no file",
    "w\0": "which has a null character",
    "/w": "which is absolute",
    "\\w": "which is absolute",
    "C:w": "which is absolute",
    "z:\\w": "which is absolute",
    "..": "which leaves the model's folder",
    "../w": "which leaves the model's folder",
    "a/../w": "which leaves the model's folder",
    "a\\..": "which leaves the model's folder",
    "_ORT_MEM_ADDR_": "which is an address in memory",
    "*/_ORT_MEM_ADDR_/*": "which is an address in memory",
}


@pytest.mark.parametrize(("location", "what"), LOCATIONS.items(), ids=map(repr, LOCATIONS))
def test_a_location_elsewhere(location: str, what: str) -> None:
    flaw = external_flaw(entries(("location", location)), 8)
    assert flaw == Flaw(Fault.EXTERNAL_LOCATION, f"its external data is in {location!r}, {what}")


def test_a_location_that_is_not_text() -> None:
    expected = Flaw(Fault.EXTERNAL_LOCATION, r"its external data is in b'\xff', which is not UTF-8 text")
    assert external_flaw([not_utf8("location")], 8) == expected


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("location", Fault.EXTERNAL_LOCATION),
        ("offset", Fault.EXTERNAL_EXTENT),
        ("length", Fault.EXTERNAL_EXTENT),
        ("checksum", None),
    ],
)
def test_one_key_twice(key: str, fault: Fault | None) -> None:
    once = [(name, "8") for name in ("location", "offset", "length", "checksum")]
    expected = None if fault is None else Flaw(fault, f"its external data has more than one {key}")
    assert external_flaw(entries(*once), 8) is None
    assert external_flaw(entries(*once, (key, "8")), 8) == expected


@pytest.mark.parametrize(("text", "offset"), [("0", 0), ("4096", 4096), ("007", 7), (str(MOST), MOST), ("0" * 19, 0)])
def test_an_offset(text: str, offset: int) -> None:
    given = entries(("location", "w"), ("offset", text))
    assert external_flaw(given, 8) is None
    tensor = TensorProto(data_type=TensorProto.INT8, dims=[8], external_data=given)
    assert external_reference(tensor) == Reference("w", offset, 8)


EXTENTS = ["", "-1", "+1", "1.0", " 1", "1 ", "1\n", "0x1", "1e3", "1_0", "twelve", "١", str(MOST + 1), "0" * 20]


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("text", EXTENTS)
def test_what_is_no_extent(key: str, text: str) -> None:
    flaw = external_flaw(entries(("location", "w"), (key, text)), MOST + 1)
    assert flaw == Flaw(Fault.EXTERNAL_EXTENT, f"the {key} of its external data is {text!r}")


@pytest.mark.parametrize("key", ["offset", "length"])
def test_an_extent_that_is_not_text(key: str) -> None:
    expected = Flaw(Fault.EXTERNAL_EXTENT, rf"the {key} of its external data is b'\xff'")
    assert external_flaw([*entries(("location", "w")), not_utf8(key)], 8) == expected


@pytest.mark.parametrize("length", ["0", "7", "8", "9", "08"])
def test_a_length(length: str) -> None:
    what = f"its external data is {length} bytes long, but its elements take 8"
    expected = None if int(length) == 8 else Flaw(Fault.EXTERNAL_EXTENT, what)
    assert external_flaw(entries(("location", "w"), ("length", length)), 8) == expected


def test_links(tmp_path: Path) -> None:
    """Links may lead within the model's folder, and into that of the file that the model's path is a link to."""
    tmp_path = tmp_path.resolve()
    for name in ("models", "store", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w").touch()
    (tmp_path / "store" / "m.onnx").touch()
    models = tmp_path / "models"
    links = {"m.onnx": "../store/m.onnx", "within": "w", "stored": "../store/w", "out": "../secret/w"}
    for name, target in links.items():
        (models / name).symlink_to(target)

    linked, alone = ModelFolder.of_file(models / "m.onnx"), ModelFolder(models)
    assert (linked.path, linked.allowed) == (models, (models, tmp_path / "store"))
    assert (alone.path, alone.allowed) == (models, (models,))
    assert ModelFolder.of_file(models / "w").allowed == (models,)
    for location, found, of_linked, of_alone in (
        ("w", models / "w", models, models),
        ("absent", models / "absent", models, models),
        ("within", models / "w", models, models),
        ("stored", tmp_path / "store" / "w", tmp_path / "store", None),
        ("out", tmp_path / "secret" / "w", None, None),
    ):
        for folder, containing in ((linked, of_linked), (alone, of_alone)):
            assert folder.resolve(location) == found
            assert folder.containing(found) == containing
            flaw = link_flaw(location, folder)
            what = f"its external data is in {location!r}, a link to {shown(str(found))}"
            assert flaw == (None if containing is not None else Flaw(Fault.EXTERNAL_LOCATION, what))
