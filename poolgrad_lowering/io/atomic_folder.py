"""A new folder put in place whole or not at all: filled beside its place and renamed. Knows nothing of models."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from poolgrad_lowering.diagnostics.errors import FileError, explained
from poolgrad_lowering.io.atomic_write import sync_folder, temporary_beside


class NewFolder:
    """A folder to fill at `path`, beside its place; `put` renames it, and without that it is gone at the end.

    Raises `FileError` where the place is taken by anything but an empty folder, or cannot be written to.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._target = Path(os.path.realpath(place))
        self.path = temporary_beside(self._target)

    def __enter__(self) -> NewFolder:
        with self._explained():
            if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
                raise FileError(f"cannot write '{self._place}': it is there and no empty folder; give another name")
            self.path.mkdir()
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
            with contextlib.suppress(FileNotFoundError):
                self._target.rmdir()  # not every system renames onto an empty folder
            self.path.rename(self._target)
            sync_folder(self._target.parent)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._place}'")
