# SPDX-License-Identifier: Apache-2.0

"""A model's external data files: whether they are complete, and their copies beside a model in another folder."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from poolgrad_lowering.model.diagnostics.errors import FileError, explained
from poolgrad_lowering.model.diagnostics.faults import shown
from poolgrad_lowering.model.io.atomic_write import Content, Part, Parts, require_regular
from poolgrad_lowering.model.ir.external import ExternalFile, ModelFolder, Reference


class DataWarning(NamedTuple):
    """External data that is not available.

    `file` is the file's location as the model has it, `tensor` the place of a tensor without data, `reason` a sentence.
    """

    file: str
    tensor: str
    reason: str


_LARGEST_ALIGNMENT = 1 << 16
"""Bytes: the largest memory page of a supported system, and the allocation granularity of Windows."""


def data_warnings(files: Mapping[str, ExternalFile], folder: ModelFolder | None) -> tuple[DataWarning, ...]:
    """A warning for each external file that is missing, is not a regular file, or ends before a tensor does.

    Reads no content, only the files' sizes. Returns nothing without a folder.
    """
    if folder is None:
        return ()
    warnings = []
    for location, file in files.items():
        name = shown(location)
        try:
            found = folder.resolve(location).lstat()
            require_regular(found.st_mode)
        except OSError as error:
            what = f"external data {name} is not there: {error.strerror or error}"
            warnings.append(DataWarning(location, file.first, what))
            continue
        if found.st_size < file.end:
            what = f"external data {name} has {found.st_size} bytes, but a tensor ends at {file.end}"
            warnings.append(DataWarning(location, file.last, what))
    return tuple(warnings)


def require_not_external(locations: Iterable[str], model: Path, written: Iterable[Path]) -> None:
    """Raise `FileError` if a path in `written` is an external data file of the model, by their `locations` in it."""
    kept = {os.path.realpath(model.parent / location) for location in locations}
    for path in written:
        if os.path.realpath(path) in kept:
            raise FileError(f"cannot write '{path}': the model keeps tensors in it; choose another name")


class Copies(NamedTuple):
    """The external data files to write beside a model, and the new reference for each reference that moves."""

    contents: dict[Path, Content]
    moved: dict[Reference, Reference]


def plan_copies(
    files: Mapping[str, ExternalFile], left: Mapping[str, set[Reference]], source: Path, destination: Path
) -> Copies:
    """The external data files that the model at `destination` needs and that do not exist there. Raises `FileError`.

    `files` are the external files of the source model, `left` the references of the written model, both by location.
    A file of which the written model uses every reference is copied unchanged. Otherwise the copy holds the remaining
    references only, and its name begins with that of the written model, because no other model can use it.
    """
    folder = Path(os.path.realpath(destination.parent))
    found = Copies({}, {})
    for location in sorted(left):
        original = source.parent / location
        if not original.is_file():
            raise FileError(f"cannot copy '{original}', in which the model keeps tensors: there is no such file")
        if left[location] == files[location].references:
            _add(found.contents, original, folder / location, destination)
            continue
        offsets, parts = _compacted(left[location])
        written = _own_location(location, source, destination)
        size, end = original.stat().st_size, max(part.offset + part.length for part in parts)
        if size < end:
            raise FileError(
                f"cannot copy '{original}', in which the model keeps tensors: it has {size} bytes, but a tensor ends "
                f"at {end}; give the complete file"
            )
        _add(found.contents, Parts(original, parts), folder / written, destination)
        found.moved.update({old: Reference(written, offset, old.length) for old, offset in offsets.items()})
    return found


def _own_location(location: str, source: Path, destination: Path) -> str:
    """The location of a file that belongs to the model at `destination` only: `a.onnx.data` becomes `b.onnx.data`."""
    path = PurePosixPath(location)
    suffix = path.name.removeprefix(source.name) if path.name.startswith(source.name) else f".{path.name}"
    return str(path.with_name(destination.name + suffix))


def _compacted(references: Iterable[Reference]) -> tuple[dict[Reference, int], tuple[Part, ...]]:
    """The new offset of each reference in a file that holds only these references, and the parts of that file.

    References that share bytes still share them. Each new offset keeps the alignment of the old one, up to 64 KiB,
    because runtimes map large tensors into memory page by page.
    """
    offsets: dict[Reference, int] = {}
    parts: list[Part] = []
    end = 0
    for run in _runs(references):
        start, stop = run[0].offset, max(reference.end for reference in run)
        alignment = max(reference.offset & -reference.offset or _LARGEST_ALIGNMENT for reference in run)
        alignment = min(alignment, _LARGEST_ALIGNMENT)
        moved = (start - end) // alignment * alignment
        offsets.update({reference: reference.offset - moved for reference in run})
        parts.append(Part(start - moved - end, start, stop - start))
        end = stop - moved
    return offsets, tuple(parts)


def _runs(references: Iterable[Reference]) -> Iterator[list[Reference]]:
    """The references sorted by offset, grouped into runs that overlap or are adjacent."""
    run: list[Reference] = []
    end = 0
    for reference in sorted(references, key=lambda reference: (reference.offset, reference.end)):
        if run and reference.offset > end:
            yield run
            run, end = [], 0
        run.append(reference)
        end = max(end, reference.end)
    if run:
        yield run


def _add(contents: dict[Path, Content], content: Path | Parts, copy: Path, destination: Path) -> None:
    """Add `copy` with `content` to `contents`, unless the file exists with this content. Raises `FileError`."""
    folder = Path(os.path.realpath(destination.parent))
    if os.path.realpath(copy) == os.path.realpath(destination):
        raise FileError(f"cannot write '{destination}': the model keeps tensors in a file of this name; choose another")
    if not Path(os.path.realpath(copy)).is_relative_to(folder):
        raise FileError(f"cannot write '{copy}': links lead out of '{folder}'; remove them or choose another folder")
    original = content if isinstance(content, Path) else content.file
    with explained(f"cannot copy '{original}' to '{copy}'"):
        if copy in contents or (copy.exists() and not _holds(copy, content)):
            raise FileError(f"'{copy}' exists with other content: remove it, or write the model elsewhere")
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            contents[copy] = content


def _holds(file: Path, content: Path | Parts) -> bool:
    """Whether a file exists and has this content."""
    if not file.is_file():
        return False
    if isinstance(content, Path):
        return filecmp.cmp(content, file, shallow=False)
    with file.open("rb") as existing:
        return all(existing.read(len(block)) == block for block in content.blocks()) and not existing.read(1)
