"""New folders are put in place whole or not at all."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering import FileError
from poolgrad_lowering.io.atomic_folder import NewFolder
from tests.processes import environment

KILLED = """
import os, signal, sys
from pathlib import Path
from poolgrad_lowering.io.atomic_folder import NewFolder
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
        folder.put()
    assert (place / "sub" / "a").read_text() == "a"
    assert list(tmp_path.iterdir()) == [place]


def test_without_put_nothing_is_left(tmp_path: Path) -> None:
    with NewFolder(tmp_path / "out") as folder:
        (folder.path / "a").touch()
    with pytest.raises(ZeroDivisionError), NewFolder(tmp_path / "out"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("full", "it is there and no empty folder"),
        ("file", "it is there and no empty folder"),
        ("absent/out", "No such file or directory"),
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
            folder.put()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "out")], env=environment(), check=False)
    assert done.returncode == -9
    [leftover] = tmp_path.iterdir()
    assert (leftover / "a").exists()
    with NewFolder(tmp_path / "other") as folder:
        folder.put()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_is_locked_stays(tmp_path: Path) -> None:
    with NewFolder(tmp_path / "out") as first, NewFolder(tmp_path / "other") as second:
        assert {first.path, second.path} == set(tmp_path.iterdir())


def test_names_that_are_not_ours_stay(tmp_path: Path) -> None:
    for name in (".poolgrad-1.folder", ".poolgrad-0123456789abcdef.folder2"):
        (tmp_path / name).mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / ".poolgrad-0123456789abcdef.folder").symlink_to(target)
    with NewFolder(tmp_path / "out") as folder:
        folder.put()
    assert len(list(tmp_path.iterdir())) == 5


def test_a_folder_that_is_taken_for_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed between its making and its lock: another one is made."""
    from poolgrad_lowering.io import atomic_folder

    def remove_first(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not removed:
            [path] = tmp_path.iterdir()
            path.rmdir()
            removed.append(path)

    removed: list[Path] = []
    monkeypatch.setattr(atomic_folder, "lock", remove_first)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with NewFolder(tmp_path / "out") as folder:
        assert [folder.path] == list(tmp_path.iterdir())
        assert folder.path not in removed
    assert len(list(Path("/proc/self/fd").iterdir())) == before
