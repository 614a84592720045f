"""Files put in place whole or not at all, whatever ends the process. Knows nothing of models.

A file is written beside its target under a name of its own, brought to the disk, and renamed over the target. While
that lasts it is locked, so that what a killed process has left behind is known by having no lock: the next write into
the folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
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

_TEMPORARY = re.compile(r"\.poolgrad-[0-9a-f]{16}\.tmp")
_NO_SUCH_SERVICE = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems answer that have no locks, or do not sync folders."""


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
    """A new file beside its target, complete and on the disk; gone again where it is not put in place."""

    def __init__(self, path: Path, content: Content) -> None:
        self._path = path
        self._stack = contextlib.ExitStack()
        with self._stack, self._explained():
            target = _target(path)
            self._name = target.name
            self._folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._stack.callback(os.close, self._folder)
            _remove_leftovers(self._folder)
            self._temporary = f".poolgrad-{secrets.token_hex(8)}.tmp"
            self._stack.callback(self._discard)  # before it is made: an interrupt may come at any time
            handle = _create(self._temporary, self._folder)
            self._stack.callback(os.close, handle)  # and with it the lock
            with contextlib.suppress(FileNotFoundError):  # another process may take it away at any time
                os.fchmod(handle, target.stat().st_mode & 0o777)
            _fill(handle, content)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> _Staged:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def withdraw_old(self) -> None:
        """Remove the file that is to be replaced."""
        with self._explained():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)
            sync_folder(self._folder)

    def put(self) -> None:
        """Rename it over its target."""
        with self._explained():
            os.rename(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            sync_folder(self._folder)

    def _discard(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._folder)

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(f"cannot write '{self._path}'")


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


def _create(name: str, folder: int) -> int:
    """A new, locked file with the permissions that new files get."""
    while True:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            lock(handle)
        except BaseException:
            os.close(handle)
            raise
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # taken for a leftover before it was locked


def _fill(handle: int, content: Content) -> None:
    with os.fdopen(handle, "wb", closefd=False) as file:
        if isinstance(content, Path):
            with open_regular(content) as source:
                shutil.copyfileobj(source, file, _BLOCK)
        elif isinstance(content, Parts):
            file.writelines(content.blocks())
        else:
            file.write(content)
        file.flush()
        os.fsync(handle)


def make_folder(folder: Path) -> None:
    """Make a folder where it is missing, and those around it. Raises `FileError`."""
    with explained(f"cannot make '{folder}'"):
        folder.mkdir(parents=True, exist_ok=True)


def open_regular(path: Path) -> BinaryIO:
    """A file opened for reading, never a pipe or device, which could last for ever. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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


def _remove_leftovers(folder: int) -> None:
    """Remove what killed processes have left; what cannot be removed, or is not known to be theirs, stays."""
    for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
        with contextlib.suppress(OSError):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(handle)


def lock(handle: int) -> None:
    """Lock a file or folder for this process, where the file system has locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_SUCH_SERVICE:
            raise


def sync_folder(folder: int) -> None:
    """Bring a folder's entries to the disk, where the file system does that."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_SUCH_SERVICE:
            raise
