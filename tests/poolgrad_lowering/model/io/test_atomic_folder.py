# SPDX-License-Identifier: Apache-2.0

"""A new folder appears completely or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering import FileError
from poolgrad_lowering.model.io.atomic_write import NewFolder
from tests.harness.processes import environment

KILLED = """
import os, signal, sys
from pathlib import Path
from poolgrad_lowering.model.io.atomic_write import NewFolder
with NewFolder(Path(sys.argv[1])) as folder:
    (folder.path / "a").write_text("a")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder(tmp_path: Path, exists: bool) -> None:
    place = tmp_path / "out"
    if exists:
        place.mkdir()
    with NewFolder(place) as folder:
        folder.file("sub/a").write_text("a")
        assert not place.exists() or not any(place.iterdir())
        folder.commit()
    assert (place / "sub" / "a").read_text() == "a"
    assert list(tmp_path.iterdir()) == [place]


def test_without_commit_nothing_is_left(tmp_path: Path) -> None:
    with NewFolder(tmp_path / "out") as folder:
        (folder.path / "a").touch()
    with pytest.raises(ZeroDivisionError), NewFolder(tmp_path / "out"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("full", "it exists and is not an empty folder"),
        ("file", "it exists and is not an empty folder"),
        ("absent/out", "the folder '.*absent' does not exist; create it first"),
        ("file/out", "Not a directory"),
    ],
)
def test_places_that_are_taken(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=what), NewFolder(tmp_path / name):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_a_place_that_is_taken_meanwhile(tmp_path: Path) -> None:
    with NewFolder(tmp_path / "out") as folder:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "a").touch()
        with pytest.raises(FileError, match="cannot write"):
            folder.commit()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


def test_a_killed_process_leaves_no_half_of_a_folder(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "out")], env=environment(), check=False)
    assert done.returncode == -9
    [leftover] = tmp_path.iterdir()
    assert leftover.name.startswith(".poolgrad-")
    assert (leftover / "a").exists()


def test_two_at_the_same_time(tmp_path: Path) -> None:
    with NewFolder(tmp_path / "out") as first, NewFolder(tmp_path / "other") as second:
        assert {first.path, second.path} == set(tmp_path.iterdir())
