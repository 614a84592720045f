# SPDX-License-Identifier: Apache-2.0

"""The bytes by which function bodies of the dialect are compared.

Other tools that read and write a model leave out empty strings, and the defaults of attributes, which every node of the
dialect has anyway.
"""

from __future__ import annotations

from google.protobuf.message import Message
from onnx import FunctionProto

from poolgrad_lowering.dialect.attributes import default_proto
from poolgrad_lowering.dialect.ops import OPS


def body_bytes(function: FunctionProto) -> bytes:
    """Return the bytes of a function without empty strings and without the defaults that the dialect declares.

    Raises `KeyError` for a function whose name is not in `OPS`.
    """
    kept = FunctionProto()
    kept.CopyFrom(function)
    defaults = [default_proto(attribute) for attribute in OPS[function.name].attributes if not attribute.required]
    others = [attribute for attribute in kept.attribute_proto if attribute not in defaults]
    del kept.attribute_proto[:]
    kept.attribute_proto.extend(others)
    _clear_empty_strings(kept)
    return kept.SerializeToString(deterministic=True)


def _clear_empty_strings(message: Message) -> None:
    for field, value in message.ListFields():
        if value == "":
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for inner in (value,) if isinstance(value, Message) else value:
                _clear_empty_strings(inner)
