# SPDX-License-Identifier: Apache-2.0

"""GE's view of an ONNX node: the fields of its own schema, and the JSON text of the attributes that a plugin is given.

GE's schema is that of IR version 6 as proto3: fields that came later are unknown and dropped, and a field with its
default value counts as absent. The text has objects in alphabetical order and is indented by two blanks.
"""

from __future__ import annotations

import json
import math
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import NodeProto

LATER_FIELDS = {
    "AttributeProto": {"tp", "type_protos"},
    "NodeProto": {"overload", "metadata_props", "device_configurations"},
    "GraphProto": {"metadata_props"},
    "TensorProto": {"metadata_props"},
    "ValueInfoProto": {"metadata_props"},
}
"""What ONNX has added since, by message. `TypeProto` and the model are never part of a node."""

LONGEST_FLOAT = 9
"""Characters of a float that is written as a text; a longer one is written as a number."""


def source_attributes(node: NodeProto, key: str) -> dict[str, Any]:
    """Return the attributes of the source operator of a callback: the fields of a node, with its key as `op_type`."""
    fields: dict[str, Any] = {
        "input": list(node.input),
        "output": list(node.output),
        "name": node.name,
        "op_type": key,
        "domain": node.domain,
        "doc_string": node.doc_string,
    }
    if node.attribute:
        fields["attribute"] = attribute_text(node)
    return {name: value for name, value in fields.items() if value}


def attribute_text(node: NodeProto) -> str:
    """Return the JSON text of the node's attributes."""
    attributes = [_message(attribute) for attribute in node.attribute]
    return json.dumps({"attribute": attributes}, indent=2, sort_keys=True, ensure_ascii=False)


def _message(message: Message) -> Any:
    """Return a message as JSON; an empty one is null."""
    later = LATER_FIELDS.get(message.DESCRIPTOR.name, set())
    members = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.name in later:
            continue
        if field.is_repeated:
            if value:
                members[field.name] = [_repeated(field, each) for each in value]
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            if value.ByteSize():
                members[field.name] = _message(value)
        elif value or _is_negative_zero(value):
            members[field.name] = _single(field, value)
    return members or None


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_FLOAT:
        text = f"{value:g}"
        return text if len(text) <= LONGEST_FLOAT else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return escaped(value)
    return value


def _repeated(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _message(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return value.decode("utf-8", "ignore")  # not escaped, and what is no UTF-8 is left out
    return value


def escaped(value: bytes) -> str:
    """Return bytes as C writes them in a string: what is not printable in three octal digits."""
    short = {ord(char): f"\\{name}" for char, name in zip("\n\r\t\"'\\", "nrt\"'\\", strict=True)}
    return "".join(short.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in value)


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and math.copysign(1.0, value) < 0
