# SPDX-License-Identifier: Apache-2.0

"""Which external data has to be copied with a model that is written into another folder, and its new references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import Content
from poolgrad_lowering.model.io.external_files import Copies, plan_copies
from poolgrad_lowering.model.ir.external import Reference
from poolgrad_lowering.model.ir.tensors import external_reference, external_tensors


def missing_data(gate: Gate, model: ModelProto, source: Path, destination: Path, *, copy: bool) -> Copies:
    """The external data to copy for a lowered model. Raises `FileError` if it must be copied and `copy` is false.

    Runtimes read external data relative to the folder of the model's path as given.
    """
    folder, written = source.parent.resolve(), destination.parent.resolve()
    if not gate.external or folder == written or not (left := _references(model)):
        return Copies({}, {})
    if copy:
        return plan_copies(gate.external, left, source, destination)
    raise FileError(
        f"'{source}' keeps tensors in external files, whose locations are relative to its folder: write the output to "
        f"'{folder}', not '{written}', or copy the files (--copy-external, copy_external=True)"
    )


def with_data(
    gate: Gate, model: ModelProto, source: Path, destination: Path, *, copy: bool = True
) -> dict[Path, Content]:
    """The content of a model's new file, and of the external data that has to be beside it, by path."""
    contents, moved = missing_data(gate, model, source, destination, copy=copy)
    if moved:
        move_references(model, moved)
    return {**contents, destination: gate.serialised(model)}


def _references(model: ModelProto) -> dict[str, set[Reference]]:
    """The references of a validated model to external data, by location."""
    found = defaultdict[str, set[Reference]](set)
    for tensor in external_tensors(model):
        reference = external_reference(tensor)
        found[reference.location].add(reference)
    return found


def move_references(model: ModelProto, moved: Mapping[Reference, Reference]) -> None:
    """Replace references to external data in a validated model."""
    for tensor in external_tensors(model):
        new = moved.get(external_reference(tensor))
        if new is None:
            continue
        kept = [entry for entry in tensor.external_data if entry.key not in ("location", "offset")]
        del tensor.external_data[:]
        for key, value in (("location", new.location), ("offset", new.offset)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.external_data.extend(kept)
