"""A model with the long lists of its main graph packed: each entry is bytes until somebody asks for it.

Most nodes of a model are never looked at one by one. protobuf reads and writes such a model many times faster, as it
copies the entries' bytes; and what is not asked for cannot change. The message types are ONNX's own but for the type of
three fields: on the wire, a message within a message and bytes are the same (protobuf's encoding of LEN records).
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
"""Bytes that every message has in which there is an external tensor."""
_PACKED = {"node": onnx.NodeProto, "value_info": onnx.ValueInfoProto, "initializer": onnx.TensorProto}


class Packed(Generic[M]):
    """A list of messages, kept as their bytes. A message that was asked for stays the same object until an edit.

    Raises `DecodeError` where the bytes asked for are no such message.
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
        """Every message, none of them kept."""
        return map(self._kind.FromString, self.blobs)

    def write_back(self, position: int) -> None:
        """Take over what was changed in a message that was asked for."""
        self.blobs[position] = self._unpacked[position].SerializeToString()

    def edit(self, key: bytes, change: Callable[[M], bool]) -> None:
        """Apply a change to every message that has some bytes, and write back those of which it says that it did so."""
        for position, blob in enumerate(self.blobs):
            if key in blob:
                message = self._kind.FromString(blob)
                if change(message):
                    self._unpacked.pop(position, None)
                    self.blobs[position] = message.SerializeToString()

    def replace(self, run: range, messages: Sequence[M]) -> None:
        """Put messages in the place of a run of others. Only where their numbers differ, what is behind them moves."""
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
    """An `onnx.ModelProto` with a packed main graph; everything else of it is ONNX's own messages.

    Raises `DecodeError` where the bytes are no model. What is packed may still be none.
    """

    def __init__(self, data: bytes) -> None:
        self._message = _Model.FromString(data)
        self.graph = PackedGraph(self._message.graph)
        self.ir_version: int = self._message.ir_version
        self.opset_import = self._message.opset_import
        self.functions = self._message.functions
        self.training_info = self._message.training_info

    def HasField(self, name: str) -> bool:  # noqa: N802 - as protobuf's messages have it
        """Whether a field is set."""
        return bool(self._message.HasField(name))

    def edit_external(self, change: Callable[[onnx.TensorProto], bool]) -> None:
        """Apply a change to every external tensor, wherever in the model, and write back what it says it changed."""

        def change_within(message: Message) -> bool:
            changed = [change(tensor) for tensor in external_tensors(message)]
            return any(changed)

        change_within(self._message)  # but for what is packed
        for packed in (self.graph.node, self.graph.initializer):
            packed.edit(_EXTERNAL_KEY, change_within)

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The model's bytes. Raises `EncodeError`."""
        data: bytes = self._message.SerializeToString()
        return data


def _model_type() -> Any:
    """The message type of a model with a packed main graph, made of ONNX's."""
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
            if message.name == "ModelProto" and field.name == "graph":
                field.type_name = f".{_PACKAGE}.GraphProto"
            if message.name == "GraphProto" and field.name in _PACKED:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(ours.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelProto"))


_Model = _model_type()
