"""Files put in place whole or not at all, whatever ends the process. Knows nothing of models.

A file is written beside its target under a name of its own, brought to the disk, and renamed over the target.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from poolgrad_lowering.diagnostics.errors import FileError, explained

PathLike = str | os.PathLike[str]

_BLOCK = 1 << 20
"""Bytes of another file that are in memory at a time."""
_NO_SUCH_SERVICE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems answer that do not sync folders."""
_OPEN_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Reads bytes, and does not wait for the other end of a pipe. Windows alone has the last flag and lacks the other."""


class Part(NamedTuple):
    """Some bytes of a file, with zero bytes in front of them."""

    zeros: int
    offset: int
    length: int


@dataclass(frozen=True)
class Parts:
    """Parts of another file, one after the other."""

    file: Path
    parts: tuple[Part, ...]

    def blocks(self) -> Iterator[bytes]:
        """What the parts hold, in blocks. Raises `OSError`, also where the file ends within a part."""
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
"""What a new file holds: these bytes, what another file holds, or parts of that."""


def write_files(contents: Mapping[Path, Content], descriptions: Mapping[Path, bytes] | None = None) -> None:
    """Write some files, and those that describe them. Raises `FileError`.

    All are complete on the disk before the first is put in place, so that what can go wrong has gone wrong before
    anything changes. They are put in place in their order, descriptions last, and old descriptions are removed before
    that: whenever it ends, a description that is there is that of the files beside it.
    """
    with contextlib.ExitStack() as stack:
        staged = [stack.enter_context(_Staged(path, content)) for path, content in contents.items()]
        last = [stack.enter_context(_Staged(path, content)) for path, content in (descriptions or {}).items()]
        if staged:
            for description in last:
                description.withdraw_old()
        for one in (*staged, *last):
            one.put()


def write_bytes(path: Path, data: bytes) -> None:
    """Write one file whole; a link within its folder stays one. Raises `FileError`."""
    write_files({path: data})


class _Staged:
    """A new file beside its target, complete and on the disk; removed at the end unless it is put in place."""

    def __init__(self, path: Path, content: Content) -> None:
        self._path = path
        self._stack = contextlib.ExitStack()
        with self._stack, self._explained():
            self._target = _target(path)
            self._temporary = temporary_beside(self._target)
            self._stack.callback(self._discard)  # before it is made: an interrupt may come at any time
            with self._temporary.open("xb") as file:
                with contextlib.suppress(FileNotFoundError):
                    self._temporary.chmod(self._target.stat().st_mode & 0o777)
                _fill(file, content)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> _Staged:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def withdraw_old(self) -> None:
        """Remove the file that is to be replaced."""
        with self._explained():
            self._target.unlink(missing_ok=True)
            sync_folder(self._target.parent)

    def put(self) -> None:
        """Rename it over its target."""
        with self._explained():
            os.replace(self._temporary, self._target)  # noqa: PTH105 - tests make it fail
            sync_folder(self._target.parent)

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._path}'")


def temporary_beside(target: Path) -> Path:
    """A new name in the folder of a file or folder that is to be made: a killed process leaves it behind."""
    return target.with_name(f".poolgrad-{secrets.token_hex(8)}.tmp")


def _target(path: Path) -> Path:
    """The file that a path means: a link leads to another one in its folder, and to nothing else."""
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
        raise FileError(f"cannot write '{path}': it is no regular file, which could be replaced")
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


def make_folder(folder: Path) -> None:
    """Make a folder where it is missing, and those around it. Raises `FileError`."""
    with explained(f"cannot make '{folder}'"):
        folder.mkdir(parents=True, exist_ok=True)


def open_regular(path: Path) -> io.BufferedReader:
    """A file opened for reading, never a pipe or device, which could last for ever. Raises `OSError`."""
    return regular(os.open(path, _OPEN_AT_ONCE))


def regular(handle: int) -> io.BufferedReader:
    """The file of a descriptor, which is closed where that is no regular file. Raises `OSError`."""
    try:
        require_regular(os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def require_regular(mode: int) -> None:
    """Raise `OSError` unless the mode, as `os.fstat` gives it, is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk, where the system and the file system do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SUCH_SERVICE:
            raise
    finally:
        os.close(handle)
