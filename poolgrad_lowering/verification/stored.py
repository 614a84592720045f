"""Tensors in external files: brought into the models that are compared, or compared where they are too large."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from onnx import ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from poolgrad_lowering.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.ir.tensors import external_reference, external_tensors
from poolgrad_lowering.verification.cut import Cut
from poolgrad_lowering.verification.result import UnprovenError

_LARGEST = 1 << 28
"""Bytes of external data that are brought into a model."""


class Source(NamedTuple):
    """A model and where its external data is."""

    model: ModelProto
    data: ExternalData


def with_comparable_data(original: Source, lowered: Source) -> tuple[ModelProto, ModelProto]:
    """Both models in a form in which the same external data is the same bytes of the models, wherever its files are.

    Small external data becomes part of the models. Of large data, a tensor of the lowered model gets the original's
    reference where the original has a tensor of its name and content, else one that the original does not have. What
    cannot be read stays as it is. The models themselves are changed.
    """
    if max(map(_external_bytes, (original.model, lowered.model))) <= _LARGEST:
        for source in (original, lowered):
            _bring_in(source)
    else:
        _unify_references(original, lowered)
    return original.model, lowered.model


def _external_bytes(model: ModelProto) -> int:
    return sum(reference.length for reference in set(map(external_reference, external_tensors(model))))


def _bring_in(source: Source) -> None:
    for tensor in list(external_tensors(source.model)):
        with contextlib.suppress(UnreadableError):
            tensor.CopyFrom(source.data.inlined(tensor))


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
        if original.data.is_at(first) == lowered.data.is_at(second):
            return True
        pairs = zip(original.data.blocks(first), lowered.data.blocks(second), strict=True)
        return all(one == other for one, other in pairs)
    except UnreadableError:
        return False


def with_loaded_constants(cut: Cut, folder: Path | None) -> Cut:
    """The cut with its own external tensors read from `folder`. Raises `UnprovenError` where one cannot be."""
    return replace(cut, constants={name: _loaded(name, tensor, folder) for name, tensor in cut.constants.items()})


def _loaded(name: str, tensor: TensorProto, folder: Path | None) -> TensorProto:
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    if folder is None:
        raise UnprovenError(f"'{name}' lies in an external file, and no folder is given to look in")
    loaded = TensorProto()
    loaded.CopyFrom(tensor)
    try:
        load_external_data_for_tensor(loaded, str(folder))  # refuses paths that leave the folder
    except Exception as error:
        raise UnprovenError(f"'{name}' cannot be read from its external file: {error}") from error
    loaded.data_location = TensorProto.DEFAULT
    del loaded.external_data[:]
    return loaded
