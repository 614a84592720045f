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
from poolgrad_lowering.model.io.external_files import plan_copies
from poolgrad_lowering.model.ir.external import Reference
from poolgrad_lowering.model.ir.tensors import external_reference, external_tensors


def with_data(
    gate: Gate, model: ModelProto, source: Path, destination: Path, *, data: bytes | None = None, copy: bool = True
) -> tuple[dict[Path, Content], bytes]:
    """Return the contents of a model's new file and of the external data that has to be beside it, and the first alone.

    `data` is the model as bytes, if they are known. Runtimes read external data relative to the folder of the model's
    path as given. Raises `FileError` if it must be copied and `copy` is false.
    """
    contents: dict[Path, Content] = {}
    folder, written = source.parent.resolve(), destination.parent.resolve()
    if gate.external and folder != written and (left := _references(model)):
        if not copy:
            raise FileError(
                f"'{source}' keeps tensors in external files, whose locations are relative to its folder: write the "
                f"output to '{folder}', not '{written}', or copy the files (--copy-external, copy_external=True)"
            )
        contents, moved = plan_copies(gate.external, left, source, destination)
        if moved:
            _move_references(model, moved)
            data = None
    data = gate.serialised(model) if data is None else data
    return {**contents, destination: data}, data


def _references(model: ModelProto) -> dict[str, set[Reference]]:
    """The references of a validated model to external data, by location."""
    found = defaultdict[str, set[Reference]](set)
    for tensor in external_tensors(model):
        reference = external_reference(tensor)
        found[reference.location].add(reference)
    return found


def _move_references(model: ModelProto, moved: Mapping[Reference, Reference]) -> None:
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
