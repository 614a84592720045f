"""References to external data: where they lead and how much they claim. No file is opened; links are looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from onnx import StringStringEntryProto

from poolgrad_lowering.gate.faults import Fault, Flaw, shown

_MEMORY = "_ORT_MEM_ADDR_"
"""onnxruntime takes the offset behind this location for an address of its own process."""
_DRIVE = re.compile(r"[A-Za-z]:")
_NUMBER = re.compile(r"[0-9]{1,19}")


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


def link_flaw(location: str, model: Path) -> Flaw | None:
    """Whether links lead a location of a model's file out of the model's folder.

    The folder is that of the path as given, where runtimes look, or of the file that it is a link to: a store that
    keeps models as links to its files keeps their data so too.
    """
    found = Path(os.path.realpath(model.parent / location))
    folders = {Path(os.path.realpath(model.parent)), Path(os.path.realpath(model)).parent}
    if any(found.is_relative_to(folder) for folder in folders):
        return None
    what = f"its external data is in {shown(location)}, which links lead to {shown(str(found))}"
    return Flaw(Fault.EXTERNAL_LOCATION, what)
