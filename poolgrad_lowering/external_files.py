"""A model's external data as files: whether they are there, and how they follow a model into another folder."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from poolgrad_lowering.errors import FileError, explained
from poolgrad_lowering.gate.external import ExternalFile, ModelFolder
from poolgrad_lowering.gate.faults import shown
from poolgrad_lowering.placing import Content, require_regular
from poolgrad_lowering.report import DataWarning


def data_warnings(files: Mapping[str, ExternalFile], folder: ModelFolder | None) -> tuple[DataWarning, ...]:
    """The external files of a model that are not there, are no regular files, or end before a tensor does.

    Looks at the files' sizes alone. Without a folder nothing is known of them.
    """
    if folder is None:
        return ()
    found = ((location, file, _complaint(folder, location, file)) for location, file in files.items())
    return tuple(
        DataWarning(location, place, reason)
        for location, file, complaint in found
        if complaint is not None
        for place, reason in [complaint]
    )


def _complaint(folder: ModelFolder, location: str, file: ExternalFile) -> tuple[str, str] | None:
    """The place of a tensor whose data is not there, and why; None where all data of the file is there."""
    try:
        found = folder.resolve(location).lstat()
        require_regular(found.st_mode)
    except OSError as error:
        return file.first, f"external data {shown(location)} is not there: {error.strerror or error}"
    if found.st_size < file.end:
        return file.last, f"external data {shown(location)} has {found.st_size} bytes, and a tensor ends at {file.end}"
    return None


def require_apart(locations: Iterable[str], model: Path, written: Iterable[Path]) -> None:
    """No file that is written may be one that the model keeps its tensors in. Raises `FileError`."""
    kept = {os.path.realpath(model.parent / location) for location in locations}
    for path in written:
        if os.path.realpath(path) in kept:
            raise FileError(f"cannot write '{path}': the model keeps tensors in it; choose another name")


def copies(locations: Iterable[str], source: Path, destination: Path) -> dict[Path, Content]:
    """The files that are missing where a model is written, each with what it is a copy of. Raises `FileError`."""
    folder = Path(os.path.realpath(destination.parent))
    missing: dict[Path, Content] = {}
    for location in sorted(locations):
        original, copy = source.parent / location, folder / location
        if not Path(os.path.realpath(copy)).is_relative_to(folder):
            raise FileError(
                f"cannot write '{copy}': links lead out of '{folder}'; remove them or choose another folder"
            )
        if not original.is_file():
            raise FileError(f"cannot copy '{original}', in which the model keeps tensors: there is no such file")
        with explained(f"cannot copy '{original}' to '{copy}'"):
            if copy.exists() and not _equal(original, copy):
                raise FileError(f"'{copy}' is there with other content: remove it, or write the model elsewhere")
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                missing[copy] = original
    return missing


def _equal(first: Path, second: Path) -> bool:
    return second.is_file() and filecmp.cmp(first, second, shallow=False)
