"""References to external data: where they lead and how many bytes they name. Resolves links, opens no file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from onnx import StringStringEntryProto

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown

_MEMORY = "_ORT_MEM_ADDR_"
"""onnxruntime takes the offset behind this location for an address of its own process."""
_DRIVE = re.compile(r"[A-Za-z]:")
_NUMBER = re.compile(r"[0-9]{1,19}")


class Reference(NamedTuple):
    """The bytes of one external tensor: `length` bytes of the file at `location`, from byte `offset` on."""

    location: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The position behind the last byte."""
        return self.offset + self.length


@dataclass
class ExternalFile:
    """What a model keeps in one external file.

    `first` is the place of the first tensor in the model, `last` that of the tensor that ends at `end`, which is
    behind all others. `references` are the different references to the file.
    """

    first: str
    last: str = ""
    end: int = -1
    references: set[Reference] = field(default_factory=set)

    def add(self, reference: Reference, where: str) -> None:
        """Add the reference of a tensor at some place of the model."""
        self.references.add(reference)
        if reference.end > self.end:
            self.end, self.last = reference.end, where


class ModelFolder:
    """The folder in which a model's external data is looked for, and the folders into which links may lead from it."""

    def __init__(self, path: Path, *others: Path) -> None:
        self.path = path
        self.allowed = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in (path, *others)))

    @classmethod
    def of_file(cls, model: Path) -> ModelFolder:
        """The folder of a model's path as given, where runtimes look.

        Links may lead into the folder of the file that the path is a link to as well: a store that keeps models as
        links to its files keeps their data so too.
        """
        return cls(model.parent, Path(os.path.realpath(model)).parent)

    def resolve(self, location: str) -> Path:
        """The path of a location, without links."""
        return Path(os.path.realpath(self.path / location))

    def home(self, path: Path) -> Path | None:
        """The allowed folder in which a path without links lies; None where it lies in none."""
        return next((folder for folder in self.allowed if path.is_relative_to(folder)), None)


def reference_to(entries: Iterable[StringStringEntryProto], size: int) -> Reference:
    """The reference of a tensor whose data takes `size` bytes; `external_flaw` must have found nothing wrong."""
    values = {entry.key: entry.value for entry in entries}
    return Reference(values["location"], int(values.get("offset", 0)), size)


def external_flaw(entries: Iterable[StringStringEntryProto], size: int) -> Flaw | None:
    """What is wrong with the reference of a tensor whose data takes `size` bytes."""
    pairs = [(entry.key, entry.value) for entry in entries]
    values = dict(pairs)
    for key in ("location", "offset", "length"):
        if sum(1 for other, _ in pairs if other == key) > 1:
            return Flaw(_FAULT_OF[key], f"its external data has more than one {key}")
    if (what := _leaves(values.get("location", ""))) is not None:
        return Flaw(Fault.EXTERNAL_LOCATION, f"its external data is in {shown(values.get('location', ''))}, {what}")
    extent = {key: values[key] for key in ("offset", "length") if key in values}
    for key, text in extent.items():
        if not isinstance(text, str) or not _NUMBER.fullmatch(text) or int(text) >= 2**63:
            return Flaw(Fault.EXTERNAL_EXTENT, f"the {key} of its external data is {shown(text)}")
    if "length" in extent and int(extent["length"]) != size:
        return Flaw(
            Fault.EXTERNAL_EXTENT,
            f"its external data is {extent['length']} bytes long, and its elements take {size}",
        )
    return None


_FAULT_OF = {
    "location": Fault.EXTERNAL_LOCATION,
    "offset": Fault.EXTERNAL_EXTENT,
    "length": Fault.EXTERNAL_EXTENT,
}


def _leaves(location: object) -> str | None:
    """How a location leaves the model's folder by its spelling, on any system; None where it does not."""
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
    """Whether links lead a location of a model's external data out of the model's folder."""
    found = folder.resolve(location)
    if folder.home(found) is not None:
        return None
    what = f"its external data is in {shown(location)}, which links lead to {shown(str(found))}"
    return Flaw(Fault.EXTERNAL_LOCATION, what)
