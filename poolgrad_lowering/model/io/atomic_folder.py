# SPDX-License-Identifier: Apache-2.0

"""Atomic creation of a folder: it is filled beside its destination and then renamed. Knows nothing of models."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from poolgrad_lowering.model.diagnostics.errors import FileError, explained
from poolgrad_lowering.model.io.atomic_write import require_folder, temporary_path


class NewFolder:
    """A context manager for a temporary folder at `path`. `commit` renames it to `destination`; otherwise the exit
    deletes it.

    Raises `FileError` if the destination exists and is not an empty folder, or if it cannot be written.
    """

    def __init__(self, destination: Path) -> None:
        self._destination = destination
        self._target = Path(os.path.realpath(destination))
        self.path = temporary_path(self._target)

    def __enter__(self) -> NewFolder:
        require_folder(self._destination)
        with self._explained():
            if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
                what = "it exists and is not an empty folder; give another name"
                raise FileError(f"cannot write '{self._destination}': {what}")
            self.path.mkdir()
        return self

    def file(self, name: str) -> Path:
        """The temporary path of a file with this relative name. Creates the folders in the name."""
        path = self.path / name
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self) -> None:
        """Rename the temporary folder to the destination."""
        with self._explained():
            with contextlib.suppress(FileNotFoundError):
                self._target.rmdir()  # not every system can rename a folder over an empty one
            self.path.rename(self._target)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._destination}'")
