# SPDX-License-Identifier: Apache-2.0

"""The model that a lowering edits: protobuf messages, or the bytes of a file whose entries are parsed at first access.

Both kinds have the fields of `onnx.ModelProto` and serialise to the same bytes after the same edits. No other room
needs to know which kind a model is. `packed_model` is the second kind.
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
    """The model parsed from its serialised bytes. Raises `DecodeError`.

    The entries of the main graph are not parsed yet: a malformed entry raises `DecodeError` at its first access.
    """
    return PackedModel(data)


def replace_run(entries: Entries, run: range, messages: Sequence[Any]) -> None:
    """Replace a run of entries with messages."""
    if isinstance(entries, Packed):
        entries.replace(run, messages)
        return
    del entries[run.start : run.stop]
    for message in reversed(messages):
        entries.insert(run.start, message)


def serialised(entries: Entries) -> list[bytes]:
    """The bytes of each entry."""
    if isinstance(entries, Packed):
        return list(entries.blobs)
    return [message.SerializeToString() for message in entries]


def with_nodes(model: onnx.ModelProto, nodes: Sequence[bytes]) -> bytes:
    """The serialised model with these serialised nodes after those of its main graph."""
    packed = PackedModel(model.SerializeToString())
    packed.graph.node.blobs.extend(nodes)
    return packed.SerializeToString()


def edit_external(model: Model, change: Callable[[onnx.TensorProto], bool]) -> None:
    """Apply `change` to every external tensor of the model, at any depth; `change` returns whether it changed it."""
    if isinstance(model, PackedModel):
        model.edit_external(change)
        return
    for tensor in external_tensors(model):
        change(tensor)
