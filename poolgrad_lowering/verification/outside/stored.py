# SPDX-License-Identifier: Apache-2.0

"""Tensors in external files: loaded into the compared models, or compared in the files if they are large."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from onnx import ModelProto, TensorProto

from poolgrad_lowering.model.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.model.ir.tensors import external_reference, external_tensors
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.sites.cut import Cut

_LARGEST = 1 << 28
"""The largest number of bytes of external data that are loaded into a model."""


class Source(NamedTuple):
    """A model and its external data."""

    model: ModelProto
    data: ExternalData


def with_comparable_data(original: Source, lowered: Source) -> tuple[ModelProto, ModelProto]:
    """Modify both models so that equal external data has equal bytes in the models, and return them.

    Small external data is loaded into the models. For large data, a tensor of the lowered model gets the original's
    reference if the original has a tensor with the same name and content, else a unique reference. Unreadable data is
    not changed.
    """
    sources = original, lowered
    tensors = [list(external_tensors(source.model)) for source in sources]
    references = [set(map(external_reference, each)) for each in tensors]
    if any(sum(reference.length for reference in each) > _LARGEST for each in references):
        _unify_references(original, lowered)
        return original.model, lowered.model
    for source, each in zip(sources, tensors, strict=True):
        for tensor in each:
            with contextlib.suppress(UnreadableError):
                tensor.CopyFrom(source.data.inlined(tensor))
    return original.model, lowered.model


def _unify_references(original: Source, lowered: Source) -> None:
    by_name = defaultdict[str, list[TensorProto]](list)
    for tensor in external_tensors(original.model):
        by_name[tensor.name].append(tensor)
    for tensor in external_tensors(lowered.model):
        for candidate in by_name[tensor.name]:
            if _have_same_bytes(original, candidate, lowered, tensor):
                del tensor.external_data[:]
                tensor.external_data.extend(candidate.external_data)
                break
        else:
            tensor.external_data.add(key="found", value="only in the lowered model")


def _have_same_bytes(original: Source, first: TensorProto, lowered: Source, second: TensorProto) -> bool:
    if external_reference(first).length != external_reference(second).length:
        return False
    try:
        if original.data.location_of(first) == lowered.data.location_of(second):
            return True
        pairs = zip(original.data.blocks(first), lowered.data.blocks(second), strict=True)
        return all(one == other for one, other in pairs)
    except UnreadableError:
        return False


def with_loaded_constants(cut: Cut, folder: Path | None) -> Cut:
    """Return the cut with its external tensors loaded from `folder`. Raises `UnprovenError` if one cannot be read."""
    data = None if folder is None else ExternalData(ModelFolder(folder))
    return cut._replace(constants={name: _loaded(name, tensor, data) for name, tensor in cut.constants.items()})


def _loaded(name: str, tensor: TensorProto, data: ExternalData | None) -> TensorProto:
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    if data is None:
        raise UnprovenError(f"'{name}' is in an external file, and no folder is given")
    try:
        return data.inlined(tensor)
    except UnreadableError as error:
        raise UnprovenError(f"'{name}' cannot be read from its external file: {error}") from error
