# SPDX-License-Identifier: Apache-2.0

"""A model with the long lists of its main graph packed: each entry is kept as bytes and parsed at first access.

Most nodes of a model are never accessed one by one. protobuf reads and writes a packed model many times faster, because
it copies the entries' bytes, and an entry that was not accessed cannot change. The message types are those of ONNX,
except that three fields have the type `bytes`: a nested message and bytes have the same encoding (protobuf's LEN
records).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import onnx
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from poolgrad_lowering.ir.tensors import external_tensors

M = TypeVar("M", bound=Message)

_PACKAGE = "poolgrad_lowering"
_EXTERNAL_KEY = b"location"
"""Every message that contains an external tensor has these bytes."""
_PACKED = {"node": onnx.NodeProto, "value_info": onnx.ValueInfoProto, "initializer": onnx.TensorProto}


class Packed(Generic[M]):
    """A list of messages, stored as bytes. Indexing returns the same object for a position until the next edit.

    Access raises `DecodeError` if the bytes are not a message of this type.
    """

    def __init__(self, blobs: Any, kind: type[M]) -> None:
        self.blobs = blobs
        self._kind = kind
        self._unpacked: dict[int, M] = {}

    def __len__(self) -> int:
        return len(self.blobs)

    def __getitem__(self, position: int) -> M:
        message = self._unpacked.get(position)
        if message is None:
            message = self._unpacked[position] = self._kind.FromString(self.blobs[position])
        return message

    def __iter__(self) -> Iterator[M]:
        """Every message, parsed anew and not kept."""
        return map(self._kind.FromString, self.blobs)

    def write_back(self, position: int) -> None:
        """Store the changes of the message at a position that was accessed before."""
        self.blobs[position] = self._unpacked[position].SerializeToString()

    def edit(self, key: bytes, change: Callable[[M], bool]) -> None:
        """Apply `change` to every message whose bytes contain `key`, and store those for which it returns True."""
        for position, blob in enumerate(self.blobs):
            if key in blob:
                message = self._kind.FromString(blob)
                if change(message):
                    self._unpacked.pop(position, None)
                    self.blobs[position] = message.SerializeToString()

    def replace(self, run: range, messages: Sequence[M]) -> None:
        """Replace a run of messages. Later entries move only if the number of messages changes."""
        self._unpacked.clear()
        blobs = [message.SerializeToString() for message in messages]
        for position, blob in zip(run, blobs, strict=False):
            self.blobs[position] = blob
        del self.blobs[run.start + len(blobs) : run.stop]
        for blob in reversed(blobs[len(run) :]):
            self.blobs.insert(run.stop, blob)


class PackedGraph:
    """An `onnx.GraphProto` with three lists packed."""

    def __init__(self, message: Any) -> None:
        self.input, self.output = message.input, message.output
        self.sparse_initializer = message.sparse_initializer
        self.node = Packed(message.node, onnx.NodeProto)
        self.value_info = Packed(message.value_info, onnx.ValueInfoProto)
        self.initializer = Packed(message.initializer, onnx.TensorProto)


class PackedModel:
    """An `onnx.ModelProto` with a packed main graph; everything else is ONNX's own messages.

    Raises `DecodeError` if the bytes are not a model. The packed entries are not parsed, so they may be malformed.
    """

    def __init__(self, data: bytes) -> None:
        self._message = _Model.FromString(data)
        self.graph = PackedGraph(self._message.graph)
        self.ir_version: int = self._message.ir_version
        self.opset_import = self._message.opset_import
        self.functions = self._message.functions
        self.training_info = self._message.training_info

    def HasField(self, name: str) -> bool:  # noqa: N802 - the name in protobuf's messages
        """Whether a field is set."""
        return bool(self._message.HasField(name))

    def edit_external(self, change: Callable[[onnx.TensorProto], bool]) -> None:
        """Apply `change` to every external tensor, at any depth, and store the entries for which it returns True."""

        def change_within(message: Message) -> bool:
            changed = [change(tensor) for tensor in external_tensors(message)]
            return any(changed)

        change_within(self._message)  # all but the packed entries
        for packed in (self.graph.node, self.graph.initializer):
            packed.edit(_EXTERNAL_KEY, change_within)

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The serialised model. Raises `EncodeError`."""
        data: bytes = self._message.SerializeToString()
        return data


def _model_type() -> Any:
    """The message type of a model with a packed main graph, derived from ONNX's descriptors."""
    ours = FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(ours)
    messages = [message for message in ours.message_type if message.name in ("ModelProto", "GraphProto")]
    ours.dependency[:] = [ours.name]
    ours.name, ours.package = f"{_PACKAGE}/packed.proto", _PACKAGE
    ours.ClearField("enum_type")
    del ours.message_type[:]
    ours.message_type.extend(messages)
    for message in ours.message_type:
        for field in message.field:
            if field.name == "graph":
                field.type_name = f".{_PACKAGE}.GraphProto"
            if field.name in _PACKED:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(ours.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelProto"))


_Model = _model_type()
