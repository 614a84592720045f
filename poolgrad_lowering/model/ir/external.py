# SPDX-License-Identifier: Apache-2.0

"""References to external data: file, offset and length, and their validation. Resolves links, opens no file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from onnx import StringStringEntryProto

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown

_MEMORY = "_ORT_MEM_ADDR_"
"""For this location onnxruntime interprets the offset as an address in its own process."""
_DRIVE = re.compile(r"[A-Za-z]:")
_NUMBER = re.compile(r"[0-9]{1,19}")


class Reference(NamedTuple):
    """The bytes of one external tensor: `length` bytes of the file at `location`, starting at byte `offset`."""

    location: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.offset + self.length


@dataclass
class ExternalFile:
    """The references of a model to one external file.

    `first` is the place in the model of the first tensor, `last` the place of the tensor with the largest end offset,
    `end`. `references` are the distinct references to the file.
    """

    first: str
    last: str = ""
    end: int = -1
    references: set[Reference] = field(default_factory=set)

    def add(self, reference: Reference, where: str) -> None:
        """Add the reference of the tensor at the place `where` of the model."""
        self.references.add(reference)
        if reference.end > self.end:
            self.end, self.last = reference.end, where


class ModelFolder:
    """The folder that a model's external locations are relative to (`path`), and the folders that its links may lead
    to."""

    def __init__(self, path: Path, *others: Path) -> None:
        self.path = path
        self.allowed = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in (path, *others)))

    @classmethod
    def of_file(cls, model: Path) -> ModelFolder:
        """The folder of a model's path as given, which is the one that runtimes use.

        If the path is a link, links of the data may also lead into the folder of its target: a store that links to its
        model files also links to their data.
        """
        return cls(model.parent, Path(os.path.realpath(model)).parent)

    def resolve(self, location: str) -> Path:
        """The path of a location, with links resolved."""
        return Path(os.path.realpath(self.path / location))

    def containing(self, path: Path) -> Path | None:
        """The allowed folder that contains a path without links; None if there is none."""
        return next((folder for folder in self.allowed if path.is_relative_to(folder)), None)


def external_flaw(entries: Iterable[StringStringEntryProto], size: int) -> Flaw | None:
    """The flaw of the external data entries of a tensor whose data takes `size` bytes, or None."""
    pairs = [(entry.key, entry.value) for entry in entries]
    values = dict(pairs)
    for key in ("location", "offset", "length"):
        if sum(1 for other, _ in pairs if other == key) > 1:
            fault = Fault.EXTERNAL_LOCATION if key == "location" else Fault.EXTERNAL_EXTENT
            return Flaw(fault, f"its external data has more than one {key}")
    if (what := _location_flaw(values.get("location", ""))) is not None:
        return Flaw(Fault.EXTERNAL_LOCATION, f"its external data is in {shown(values.get('location', ''))}, {what}")
    extent = {key: values[key] for key in ("offset", "length") if key in values}
    for key, text in extent.items():
        if not isinstance(text, str) or not _NUMBER.fullmatch(text) or int(text) >= 2**63:
            return Flaw(Fault.EXTERNAL_EXTENT, f"the {key} of its external data is {shown(text)}")
    if "length" in extent and int(extent["length"]) != size:
        return Flaw(
            Fault.EXTERNAL_EXTENT, f"its external data is {extent['length']} bytes long, but its elements take {size}"
        )
    return None


def _location_flaw(location: object) -> str | None:
    """Why the text of a location is not a relative path inside the model's folder, on any system; None if it is."""
    if not isinstance(location, str):
        return "which is not UTF-8 text"
    if not location:
        return "which is no file"
    if "\0" in location:
        return "which has a null character"
    if location[0] in "/\\" or _DRIVE.match(location):
        return "which is absolute"
    parts = re.split(r"[/\\]", location)
    if ".." in parts:
        return "which leaves the model's folder"
    return "which is an address in memory" if _MEMORY in parts else None


def link_flaw(location: str, folder: ModelFolder) -> Flaw | None:
    """The flaw of a location whose links lead out of the model's folder, or None."""
    found = folder.resolve(location)
    if folder.containing(found) is not None:
        return None
    what = f"its external data is in {shown(location)}, a link to {shown(str(found))}"
    return Flaw(Fault.EXTERNAL_LOCATION, what)
