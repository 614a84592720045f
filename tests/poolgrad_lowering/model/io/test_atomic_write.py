# SPDX-License-Identifier: Apache-2.0

"""A write replaces files completely or not at all, also after errors and kills."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from poolgrad_lowering import FileError
from poolgrad_lowering.model.io import atomic_write
from poolgrad_lowering.model.io.atomic_write import write_bytes, write_files
from tests.harness.processes import environment

OLD = b"what was there before"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- the end of the process

WRITE_FOR_EVER = """
import itertools, signal, sys
from pathlib import Path
from poolgrad_lowering.model.io.atomic_write import write_files

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background has ignored by its shell
model, report = map(Path, sys.argv[1:3])
for letter in itertools.cycle(sys.argv[3].encode()):
    write_files({model: bytes([letter]) * 300_000}, {report: bytes([letter])})
    print("written", flush=True)
"""


def writer(folder: Path, letters: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITE_FOR_EVER, folder / "model", folder / "report", letters]
    return subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_whole(folder: Path, letters: str) -> None:
    """Check that the file is one of the models, and that the report belongs to it or is absent."""
    model = (folder / "model").read_bytes()
    assert len(model) == 300_000
    assert model.count(model[:1]) == len(model)
    assert model[:1].decode() in letters
    if (folder / "report").exists():
        assert (folder / "report").read_bytes() == model[:1]


def kill_again_and_again(folder: Path, rounds: int) -> int:
    """Kill a writer repeatedly during its work; returns how often it left a temporary file."""
    moment, left = random.Random(0), 0
    for _ in range(rounds):
        with writer(folder, "AB") as running:
            assert running.stdout is not None
            running.stdout.readline()
            time.sleep(moment.uniform(0, 0.02))
            running.kill()
            running.communicate()
        check_whole(folder, "AB")
        others = contents(folder).keys() - {"model", "report"}
        assert all(name.startswith(".poolgrad-") for name in others)
        assert len(others) <= 2
        left += bool(others)
        for name in others:
            (folder / name).unlink()
    return left


def test_killed(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 20)


@pytest.mark.long
def test_killed_very_often(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, 1000) > 100  # or the kills do not hit the writing


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    """Concurrent writers do not touch each other's temporary files."""
    with writer(tmp_path, "A") as first, writer(tmp_path, "B") as second:
        for running in (first, second):
            assert running.stdout is not None
            for _ in range(40):
                assert running.stdout.readline() == "written\n"
        for running in (first, second):
            running.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in running.communicate()[1]
    assert (tmp_path / "model").stat().st_size == 300_000
    assert contents(tmp_path).keys() <= {"model", "report"}


# -- what stands in the way


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(tmp_path: Path) -> None:
    """No file changes, even if the first of two fitted on the disk."""
    (tmp_path / "m").write_bytes(OLD)
    (tmp_path / "report").write_bytes(OLD)
    with files_of_at_most(10_000), pytest.raises(FileError, match=r"cannot write '.*/m': File too large"):
        write_files({tmp_path / "small": b"x", tmp_path / "m": bytes(100_000)}, {tmp_path / "report": b"new"})
    assert contents(tmp_path) == {"m": OLD, "report": OLD}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError, MemoryError])
def test_a_failed_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    (tmp_path / "m").write_bytes(OLD)

    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError if failure is OSError else failure):
        write_bytes(tmp_path / "m", b"new")
    assert contents(tmp_path) == {"m": OLD}


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither creating the temporary file nor removing it works there."""
    (tmp_path / "m").write_bytes(OLD)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        for name in ("open", "unlink"):
            patched.setattr(Path, name, fail)
        with pytest.raises(FileError, match=r"cannot write '.*/m': Read-only file system"):
            write_bytes(tmp_path / "m", b"new")
    assert contents(tmp_path) == {"m": OLD}


@pytest.mark.parametrize("works", [0, 1])
def test_a_description_is_never_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: int) -> None:
    """If the renames fail half-way, the model has no report."""
    (tmp_path / "m").write_bytes(OLD)
    (tmp_path / "report").write_bytes(OLD)
    replace, calls = os.replace, []

    def fail(*arguments: str, **folders: int) -> None:
        calls.append(arguments)
        if len(calls) > works:
            raise PermissionError(13, "no")
        replace(*arguments, **folders)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match="cannot write"):
        write_files({tmp_path / "m": b"new"}, {tmp_path / "report": b"new"})
    assert contents(tmp_path) == {"m": b"new" if works else OLD}


def test_renames_reach_the_disk_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each but the last one, and the removal of an old description before them."""
    (tmp_path / "report").write_bytes(OLD)
    steps: list[str] = []
    rename = os.replace

    def replace(source: Path, target: Path) -> None:
        steps.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(atomic_write, "sync_folder", lambda _: steps.append("synchronised"))
    write_files({tmp_path / "data": b"1", tmp_path / "model": b"2"}, {tmp_path / "report": b"3"})
    assert steps == ["synchronised", "data", "synchronised", "model", "synchronised", "report"]


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to(os.devnull)
    for path, reason in (
        (tmp_path / "pipe", "it is not a regular file"),
        (tmp_path / "folder", "Is a directory"),
        (tmp_path / "null", "out of its folder"),
        (Path(os.devnull), "it is not a regular file"),
        (tmp_path / "absent" / "m", "the folder '.*absent' does not exist; create it first"),
        (tmp_path / "pipe" / "m", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(FileError, match=reason) as caught:
            write_bytes(path, b"new")
        assert str(path) in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder", "null"}
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(FileError, match="Permission denied"):
        write_bytes(tmp_path / "locked" / "m", b"new")


# -- links


def test_a_link_within_its_folder_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m").write_bytes(OLD)
    for link, target in (("link", "a/m"), ("to_nothing", "fresh")):
        (tmp_path / link).symlink_to(target)
        write_bytes(tmp_path / link, b"new")
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"
    assert list(contents(tmp_path / "a")) == ["m"]


def test_a_link_out_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "kept").write_bytes(OLD)
    for link, target in (("up", "../kept"), ("absolute", str(tmp_path / "kept")), ("to_nothing", "../fresh")):
        path = tmp_path / "a" / link
        path.symlink_to(target)
        with pytest.raises(FileError, match="out of its folder; give that path itself"):
            write_bytes(path, b"new")
    assert (tmp_path / "kept").read_bytes() == OLD
    assert not (tmp_path / "fresh").exists()


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match="cannot write"):
        write_bytes(tmp_path / "a", b"new")


# -- permissions


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_of_a_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "m", b"x")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode
