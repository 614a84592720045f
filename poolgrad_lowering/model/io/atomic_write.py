# SPDX-License-Identifier: Apache-2.0

"""Atomic writes: after a crash a file has its old content or its new content. Knows nothing of models.

A file is written to a temporary name beside its target, synchronised to the disk, and renamed over the target. The last
rename is not awaited: if the system crashes soon after a write, the old content may be there. A new folder is filled
beside its destination and then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from poolgrad_lowering.model.diagnostics.errors import FileError, explained

PathLike = str | os.PathLike[str]

_BLOCK = 1 << 20
"""Bytes of a source file that are in memory at a time."""
_FSYNC_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error numbers of `fsync` on file systems that cannot synchronise folders."""
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opens for reading bytes, without waiting for the writer of a pipe. O_NONBLOCK is absent on Windows, O_BINARY
elsewhere."""


class Part(NamedTuple):
    """A byte range of a file, preceded by `zeros` zero bytes."""

    zeros: int
    offset: int
    length: int


class Parts(NamedTuple):
    """The concatenation of parts of a file."""

    file: Path
    parts: tuple[Part, ...]

    def blocks(self) -> Iterator[bytes]:
        """The content of the parts, in blocks. Raises `OSError`, also if the file ends within a part."""
        with open_regular(self.file) as file:
            for part in self.parts:
                yield bytes(part.zeros)
                file.seek(part.offset)
                left = part.length
                while left:
                    block = file.read(min(left, _BLOCK))
                    if not block:
                        raise OSError(errno.EIO, f"'{self.file}' ends before byte {part.offset + part.length}")
                    left -= len(block)
                    yield block


Content = bytes | Path | Parts
"""The content of a new file: bytes, a copy of a file, or parts of a file."""


def write_files(contents: Mapping[Path, Content], descriptions: Mapping[Path, bytes] | None = None) -> None:
    """Write files (`contents`) and the files that describe them (`descriptions`). Raises `FileError`.

    All temporary files are complete on the disk before the first rename, so an error leaves every target unchanged.
    Old descriptions are removed first, then the files are renamed in order, descriptions last: after a crash at any
    point, a description that exists belongs to the files beside it.
    """
    with contextlib.ExitStack() as stack:
        staged = [_Staged(path, content, stack) for path, content in contents.items()]
        last = [_Staged(path, content, stack) for path, content in (descriptions or {}).items()]
        if staged:
            for description in last:
                description.remove_old()
        files = (*staged, *last)
        for file in files:
            file.commit(awaited=file is not files[-1])


def write_bytes(path: Path, data: bytes) -> None:
    """Write one file. A symbolic link to a file of the same folder is kept. Raises `FileError`."""
    write_files({path: data})


class _Staged:
    """A complete temporary file beside its target. The exit of `stack` deletes it unless `commit` was called."""

    def __init__(self, path: Path, content: Content, stack: contextlib.ExitStack) -> None:
        self._path = path
        require_folder(path)
        with self._explained():
            self._target = _target(path)
            self._temporary = temporary_path(self._target)
            stack.callback(self._remove_temporary)  # registered first: an interrupt may come at any time
            with self._temporary.open("xb") as file:
                with contextlib.suppress(FileNotFoundError):
                    self._temporary.chmod(self._target.stat().st_mode & 0o777)
                _fill(file, content)

    def remove_old(self) -> None:
        """Delete the existing target."""
        with self._explained():
            self._target.unlink(missing_ok=True)
            sync_folder(self._target.parent)

    def commit(self, *, awaited: bool) -> None:
        """Rename the temporary file over the target; with `awaited`, also on the disk: later renames come after it."""
        with self._explained():
            os.replace(self._temporary, self._target)  # noqa: PTH105 - tests make it fail
            if awaited:
                sync_folder(self._target.parent)

    def _remove_temporary(self) -> None:
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._path}'")


def temporary_path(target: Path) -> Path:
    """A random unused path in the folder of `target`. A killed process may leave a file or folder of this name."""
    return target.with_name(f".poolgrad-{os.urandom(8).hex()}.tmp")


def _target(path: Path) -> Path:
    """The file to write for a path, with links resolved. Raises `FileError` if a link leads out of the folder, or if
    the target exists and is not a regular file."""
    target, folder = Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))
    if not target.is_relative_to(folder):
        raise FileError(f"cannot write '{path}': it is a link to '{target}', out of its folder; give that path itself")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise FileError(f"cannot write '{path}': Is a directory; give the name of a file in it")
    if not stat.S_ISREG(mode):
        raise FileError(f"cannot write '{path}': it is not a regular file and cannot be replaced")
    return target


def _fill(file: BinaryIO, content: Content) -> None:
    if isinstance(content, Path):
        with open_regular(content) as source:
            shutil.copyfileobj(source, file, _BLOCK)
    elif isinstance(content, Parts):
        file.writelines(content.blocks())
    else:
        file.write(content)
    file.flush()
    os.fsync(file.fileno())


def is_same_file(first: PathLike, second: PathLike) -> bool:
    """Whether two paths lead to the same file, by links of either kind or by the same name of a new file."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    one, other = Path(first), Path(second)
    return one.exists() and other.exists() and one.samefile(other)


def require_folder(path: Path) -> None:
    """Raise `FileError` unless the folder of a file to write exists."""
    with explained(f"cannot write '{path}'"):
        try:
            path.parent.stat()
        except FileNotFoundError:
            what = f"the folder '{path.parent}' does not exist; create it first"
            raise FileError(f"cannot write '{path}': {what}") from None


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if they do not exist. Raises `FileError`."""
    with explained(f"cannot make '{folder}'"):
        folder.mkdir(parents=True, exist_ok=True)


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file opened for reading. Raises `OSError`, also for a pipe or device, whose content may never end."""
    return regular_file(os.open(path, _OPEN_FLAGS))


def regular_file(handle: int) -> io.BufferedReader:
    """The file object of a descriptor. Closes the descriptor and raises `OSError` if it is not a regular file."""
    try:
        require_regular(os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def require_regular(mode: int) -> None:
    """Raise `OSError` unless `mode`, the `st_mode` of `os.stat`, is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def sync_folder(folder: Path) -> None:
    """Synchronise a folder's entries to the disk, if the system and the file system support it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _FSYNC_UNSUPPORTED:
            raise
    finally:
        os.close(handle)


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
