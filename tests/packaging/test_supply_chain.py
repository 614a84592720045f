# SPDX-License-Identifier: Apache-2.0

"""Wheels say what they contain and require, and can be built again, to the byte."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = sorted((ROOT / "dist").glob("*.whl"))
BOUNDED = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+),<(\d+)")


def pyproject() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_what_the_package_and_its_build_require_is_bounded_on_both_sides() -> None:
    found = pyproject()
    for requirement in (*found["project"]["dependencies"], *found["build-system"]["requires"]):
        assert BOUNDED.fullmatch(requirement), requirement


def test_the_oldest_dependencies_are_tested() -> None:
    """The session `oldest-dependencies` installs them."""
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for name, oldest, _ in BOUNDED.findall(" ".join(pyproject()["project"]["dependencies"])):
        assert re.search(rf'[" ]{name}=={re.escape(oldest)}(\.0)*[" ]', text), name


@pytest.mark.wheels
@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.stem)
def test_the_bill_of_materials(wheel: Path) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/sboms/poolgrad-lowering.cdx.json")]
        text = archive.read(name).decode()
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None
    found = json.loads(text)
    assert found["metadata"]["component"]["name"] == "poolgrad-lowering"
    libraries = [] if wheel.stem.endswith("-any") else ["libstdc++"]
    assert [part["name"] for part in found["components"]] == [
        "flatbuffers",
        *libraries,
        "networkx",
        "numpy",
        "onnx",
        "shtab",
    ]


@pytest.mark.wheels
def test_a_wheel_is_built_again_to_the_byte(tmp_path: Path) -> None:
    machine = platform.machine()
    [wheel] = [path for path in WHEELS if path.stem.endswith(machine)]
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    subprocess.run([sys.executable, tmp_path / "tools" / "wheels.py", machine], check=True)
    [again] = (tmp_path / "build" / "wheels" / machine).glob("*.whl")
    assert again.name == wheel.name
    first, second = (zipfile.ZipFile(path) for path in (wheel, again))
    with first, second:
        assert [i.filename for i in first.infolist() if first.read(i) != second.read(i.filename)] == []
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
