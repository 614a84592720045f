"""A model while it is worked on: messages in memory, or a file's bytes, which become messages where they are asked for.

Both have the fields of `onnx.ModelProto` and give the same bytes after the same edits. No other room needs to know
which of the two a model is; `packed_model` is the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import onnx

from poolgrad_lowering.ir.packed_model import Packed, PackedGraph, PackedModel
from poolgrad_lowering.ir.tensors import external_tensors

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    Entries = RepeatedCompositeFieldContainer[Any] | Packed[Any]
    """The nodes, value_infos or initializers of a graph or function."""

Model = onnx.ModelProto | PackedModel
Graph = onnx.GraphProto | PackedGraph


def read_model(data: bytes) -> Model:
    """The model in some bytes. Raises `DecodeError` where they are none.

    An entry of the main graph may still be no message: whoever asks for it gets the `DecodeError` then.
    """
    return PackedModel(data)


def replace_run(entries: Entries, run: range, messages: Sequence[Any]) -> None:
    """Put messages in the place of a run of entries."""
    if isinstance(entries, Packed):
        entries.replace(run, messages)
        return
    del entries[run.start : run.stop]
    for message in reversed(messages):
        entries.insert(run.start, message)


def edit_external(model: Model, change: Callable[[onnx.TensorProto], bool]) -> None:
    """Apply a change to every external tensor, wherever in the model; it returns whether it changed the tensor."""
    if isinstance(model, PackedModel):
        model.edit_external(change)
        return
    for tensor in external_tensors(model):
        change(tensor)
