"""A model's external data as files: where they are, and how they follow a model into another folder.

Lowering never needs them; only a copy that was asked for opens them.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable
from pathlib import Path

from poolgrad_lowering.errors import FileError, explained
from poolgrad_lowering.placing import Content


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
