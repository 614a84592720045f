# SPDX-License-Identifier: Apache-2.0

"""Reads the bytes of external tensors when a proof needs them: from regular files in the model's folder, in blocks.

If the system supports it, each file is opened folder by folder without following links: a file that was replaced after
its path was resolved is not read. Data that cannot be read raises `UnreadableError`, which never stops a lowering: the
fact stays unknown, and the gradient that needs it is refused.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Generator, Iterator
from pathlib import Path

from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.faults import shown
from poolgrad_lowering.model.io.atomic_write import open_regular, regular_file
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.ir.external import ModelFolder, Reference
from poolgrad_lowering.model.ir.tensors import external_reference, tensor_flaw

_BLOCK = 1 << 19
"""Bytes that are in memory at a time while a tensor is compared with zero; they fit into the processor's cache."""
_MOST_KEPT = 1 << 30
"""Bytes of tensors that are kept in memory at most."""
_ZEROS = bytes(_BLOCK)
_OPENS_IN_FOLDERS = os.open in os.supports_dir_fd
"""Whether the system can open a file relative to an open folder. Windows cannot."""


class UnreadableError(Exception):
    """External data cannot be read. The message says which file, why, and what to do."""


class ExternalData:
    """The external data of one model. `folder` is the model's folder, None if it is not known.

    Reads at most `limits.max_external_bytes`. Keeps the bytes of each tensor that `inlined` reads, and the answer of
    `is_zero` for each tensor: no byte is read twice, except the leading zeros of a large tensor that has other values.
    """

    def __init__(self, folder: ModelFolder | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._limit = self._left = limits.max_external_bytes
        self._kept = 0
        self._data: dict[Reference, bytes] = {}
        self._zeros: dict[Reference, bool] = {}

    def inlined(self, tensor: TensorProto) -> TensorProto:
        """A copy of an external tensor with its data in `raw_data`. Raises `UnreadableError`."""
        data = self._read(_reference(tensor))
        return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=data)

    def is_zero(self, tensor: TensorProto) -> bool:
        """Whether every byte of an external tensor is zero. Raises `UnreadableError`.

        Reads up to the first block with another value, in constant memory.
        """
        reference = _reference(tensor)
        if reference not in self._zeros:
            if reference.length <= _BLOCK or reference in self._data:
                self._zeros[reference] = _is_zero(self._read(reference))
            else:
                with contextlib.closing(self._blocks(reference)) as blocks:
                    self._zeros[reference] = all(map(_is_zero, blocks))
            if self._zeros[reference] and self._data.pop(reference, None) is not None:
                self._kept -= reference.length
        return self._zeros[reference]

    def location_of(self, tensor: TensorProto) -> tuple[Path, int]:
        """The file of an external tensor, with links resolved, and its byte offset. Raises `UnreadableError`."""
        reference = _reference(tensor)
        if self._folder is None:
            raise _without_folder(reference)
        return self._folder.resolve(reference.location), reference.offset

    def blocks(self, tensor: TensorProto) -> Iterator[bytearray]:
        """The bytes of an external tensor in blocks, each overwritten by the next one. Raises `UnreadableError`."""
        return self._blocks(_reference(tensor))

    def _read(self, reference: Reference) -> bytes:
        """The bytes of a reference. Keeps them unless they are all zero."""
        if self._zeros.get(reference):
            return bytes(reference.length)
        if reference not in self._data:
            if self._kept + reference.length > _MOST_KEPT:
                raise UnreadableError(
                    f"{_named(reference)} is not read: {_MOST_KEPT} bytes of external tensors are in memory already"
                )
            self._data[reference] = b"".join(map(bytes, self._blocks(reference)))
            self._kept += reference.length
        return self._data[reference]

    def _blocks(self, reference: Reference) -> Generator[bytearray, None, None]:
        """The bytes of a reference in blocks, each overwritten by the next one. Raises `UnreadableError`."""
        buffer, position = bytearray(min(_BLOCK, reference.length)), reference.offset
        if reference.length > self._left:
            raise UnreadableError(
                f"reading {_named(reference)} would exceed the {self._limit} bytes of external data that may be read: "
                "raise the limit max_external_bytes"
            )
        with self._opened(reference) as file:
            file.seek(position)
            while position < reference.end:
                if len(buffer) > reference.end - position:
                    buffer = bytearray(reference.end - position)
                count = file.readinto(buffer)
                if count < len(buffer):
                    raise _too_short(reference, os.fstat(file.fileno()).st_size)
                position += count
                self._left -= count
                yield buffer

    @contextlib.contextmanager
    def _opened(self, reference: Reference) -> Iterator[io.BufferedReader]:
        """The regular file of a reference, opened for reading. Raises `UnreadableError`, also if it is too short."""
        if self._folder is None:
            raise _without_folder(reference)
        try:
            file = _open_in(self._folder, reference.location)
        except OSError as error:
            raise UnreadableError(
                f"{_named(reference)} cannot be read from '{self._folder.path}': {error.strerror or error}; "
                "put the file beside the model"
            ) from error
        try:
            with file:
                if (size := os.fstat(file.fileno()).st_size) < reference.end:
                    raise _too_short(reference, size)
                yield file
        except OSError as error:
            raise UnreadableError(f"{_named(reference)} cannot be read: {error.strerror or error}") from error


def _is_zero(block: bytes | bytearray) -> bool:
    return block == _ZEROS if len(block) == _BLOCK else block.count(0) == len(block)


def _reference(tensor: TensorProto) -> Reference:
    """The reference of an external tensor. Raises `UnreadableError` if the tensor is malformed."""
    if (flaw := tensor_flaw(tensor)) is not None:
        raise UnreadableError(flaw.what)
    return external_reference(tensor)


def _named(reference: Reference) -> str:
    return f"external data {shown(reference.location)}"


def _without_folder(reference: Reference) -> UnreadableError:
    return UnreadableError(
        f"{_named(reference)} cannot be read, as the model's folder is not known: pass the folder to lower as "
        "base_dir, or lower the file itself (lower_file)"
    )


def _too_short(reference: Reference, size: int) -> UnreadableError:
    return UnreadableError(
        f"{_named(reference)} has {size} bytes, and the tensor takes bytes {reference.offset} to {reference.end}: "
        "put the complete file beside the model"
    )


def _open_in(folder: ModelFolder, location: str) -> io.BufferedReader:
    """A regular file opened for reading. Raises `OSError`, also if the resolved path is outside the folder."""
    path = folder.resolve(location)
    if (allowed := folder.containing(path)) is None:
        raise OSError(errno.EXDEV, "links lead out of the folder")
    if not _OPENS_IN_FOLDERS:
        return open_regular(path)
    with contextlib.ExitStack() as stack:
        parent = _open_folder(stack, allowed)
        *folders, name = path.relative_to(allowed).parts or (".",)
        for part in folders:
            parent = _open_folder(stack, Path(part), parent)
        return regular_file(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent))


def _open_folder(stack: contextlib.ExitStack, folder: Path, parent: int | None = None) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    stack.callback(os.close, handle)
    return handle
