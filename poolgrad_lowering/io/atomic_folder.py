"""A new folder put in place whole or not at all. Knows nothing of models.

It is filled beside its place under a name of its own and renamed. While that lasts it is locked, so that what a killed
process has left behind is known by having no lock: the next folder that is placed there removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from poolgrad_lowering.diagnostics.errors import FileError, explained
from poolgrad_lowering.io.atomic_write import lock, sync_folder

_TEMPORARY = re.compile(r"\.poolgrad-[0-9a-f]{16}\.folder")


class NewFolder:
    """A folder to fill at `path`, beside its place; `put` renames it, and without that it is gone at the end.

    Raises `FileError` where the place is taken by anything but an empty folder, or cannot be written to.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._target = Path(os.path.realpath(place))

    def __enter__(self) -> NewFolder:
        with self._explained():
            if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
                raise FileError(f"cannot write '{self._place}': it is there and no empty folder; give another name")
            _remove_leftovers(self._target.parent)
            self.path, self._handle = _create(self._target.parent)
        return self

    def file(self, name: str) -> Path:
        """Where a file of this name goes, which may begin with folders: they are made."""
        path = self.path / name
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def put(self) -> None:
        """Rename it to its place."""
        with self._explained():
            self.path.rename(self._target)
            with _opened(self._target.parent) as parent:
                sync_folder(parent)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._handle)

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._place}'")


def _create(parent: Path) -> tuple[Path, int]:
    """A new, locked folder."""
    while True:
        path = parent / f".poolgrad-{secrets.token_hex(8)}.folder"
        path.mkdir()
        handle = _open(path)
        lock(handle)
        if path.exists():
            return path, handle
        os.close(handle)  # taken for a leftover before it was locked


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = _open(folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _remove_leftovers(parent: Path) -> None:
    """Remove what killed processes have left; what is locked, or cannot be removed, stays."""
    for leftover in [path for path in parent.iterdir() if _TEMPORARY.fullmatch(path.name)]:
        with contextlib.suppress(OSError), _opened(leftover) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(leftover)
