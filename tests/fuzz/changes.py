# SPDX-License-Identifier: Apache-2.0

"""Models changed at random: any field, any byte, or only what leaves a sound model sound."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import ModelProto

_NUMBERS = (0, 1, -1, 2, 3, 7, 16, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
_INTEGERS = {FieldDescriptor.TYPE_INT64: 64, FieldDescriptor.TYPE_UINT64: 65, FieldDescriptor.TYPE_INT32: 32}
_FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), -3e38)
_TEXTS = ("", "x", "Y", "dX", "ai.onnx", "MaxPool", "..", "/etc/passwd", "a\nb", "\x1b[2J", "größe", "n" * 1000)


def mutated(data: bytes, seed: int, changes: int) -> bytes:
    """The model with so many changes of its fields, to what a careless or hostile hand would write."""
    chance = random.Random(seed)
    model = ModelProto.FromString(data)
    names = sorted({name for node in model.graph.node for name in (*node.input, *node.output)})
    for _ in range(changes):
        _change(_any_message(model, chance), chance, names)
    return model.SerializeToString()


def rewritten(data: bytes, seed: int, changes: int) -> bytes:
    """The model with so many changes of what its nodes read, say and are: mostly a sound one, of another function."""
    chance = random.Random(seed)
    model = ModelProto.FromString(data)
    for _ in range(changes if model.graph.node else 0):
        place = chance.randrange(len(model.graph.node))
        _rewrite(model, place, chance)
    return model.SerializeToString()


def corrupted(data: bytes, seed: int, changes: int) -> bytes:
    """The file with so many of its bytes changed, dropped or repeated."""
    chance, held = random.Random(seed), bytearray(data)
    for _ in range(changes):
        begin = chance.randrange(len(held))
        end = begin + chance.choice((1, 1, 2, 8, 64))
        kind = chance.randrange(4)
        if kind == 0:
            held[begin] = chance.randrange(256)
        elif kind == 1:
            held[begin] ^= 1 << chance.randrange(8)
        elif kind == 2 and len(held) > 100:
            del held[begin:end]
        else:
            held[begin:begin] = held[begin:end]
    return bytes(held)


def _rewrite(model: ModelProto, place: int, chance: random.Random) -> None:
    node, kind = model.graph.node[place], chance.randrange(5)
    lists = [attribute.ints for attribute in node.attribute if attribute.ints]
    single = [attribute for attribute in node.attribute if attribute.HasField("i")]
    if kind == 0 and lists:
        numbers = chance.choice(lists)
        numbers[chance.randrange(len(numbers))] += chance.choice((-1, 1, 2))
    elif kind == 1 and single:
        chance.choice(single).i += chance.choice((-1, 1, 2))
    elif kind == 2:
        node.op_type = chance.choice(model.graph.node).op_type
    elif kind == 3 and model.graph.value_info:
        del model.graph.value_info[chance.randrange(len(model.graph.value_info))]
    elif node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(_values_before(model, place))


def _values_before(model: ModelProto, place: int) -> list[str]:
    """What a node may read without making a cycle; "" is an operand that is left out."""
    graph = model.graph
    outside = [*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)]
    return ["", *outside, *(name for node in graph.node[:place] for name in node.output)]


def _any_message(message: Message, chance: random.Random) -> Message:
    """A message at some depth, the likelier the more the one around it consists of it."""
    while True:
        inner = [item for field, value in message.ListFields() if field.message_type for item in _items(field, value)]
        if not inner or chance.random() < 0.1:
            return message
        [message] = chance.choices(inner, [1 + item.ByteSize() for item in inner])


def _items(field: Any, value: Any) -> list[Any]:
    return list(value) if field.is_repeated else [value]


def _change(message: Message, chance: random.Random, names: list[str]) -> None:
    field: Any = chance.choice(message.DESCRIPTOR.fields)
    if field.is_repeated:
        _change_list(getattr(message, field.name), field, chance, names)
    elif chance.random() < 0.25:
        message.ClearField(field.name)
    elif field.message_type:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(field, chance, names))


def _change_list(held: Any, field: Any, chance: random.Random, names: list[str]) -> None:
    kind = chance.randrange(5)
    if kind == 0 and len(held):
        del held[chance.randrange(len(held))]
    elif kind == 1 and len(held) > 1:
        held.reverse()
    elif kind == 2 and len(held):
        held.append(chance.choice(held))
    elif field.message_type:
        held.add()
    elif len(held) and kind == 3:
        held[chance.randrange(len(held))] = _value(field, chance, names)
    else:
        held.append(_value(field, chance, names))


def _value(field: Any, chance: random.Random, names: list[str]) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return chance.choice((*_TEXTS, *names))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.choice((0, 1, 4, 8, 33)))
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return chance.choice(_FLOATS)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chance.choice(field.enum_type.values).number
    low, high = _range(_INTEGERS[field.type])
    return chance.choice([number for number in _NUMBERS if low <= number <= high])


def _range(bits: int) -> tuple[int, int]:
    return (0, 2**64 - 1) if bits == 65 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
