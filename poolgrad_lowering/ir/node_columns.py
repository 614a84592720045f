"""The nodes of a graph field by field, each field of all of them as one list; and the names of declarations.

A pass over whole lists costs a fraction of one that asks every node for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import onnx

from poolgrad_lowering.ir.attributes import Form
from poolgrad_lowering.ir.packed_model import Packed
from poolgrad_lowering.ir.wire import Fields, read_fields

_NODE = onnx.NodeProto
_READ = (
    _NODE.INPUT_FIELD_NUMBER,
    _NODE.OUTPUT_FIELD_NUMBER,
    _NODE.NAME_FIELD_NUMBER,
    _NODE.OP_TYPE_FIELD_NUMBER,
    _NODE.ATTRIBUTE_FIELD_NUMBER,
    _NODE.DOC_STRING_FIELD_NUMBER,
    _NODE.DOMAIN_FIELD_NUMBER,
    _NODE.OVERLOAD_FIELD_NUMBER,
    _NODE.METADATA_PROPS_FIELD_NUMBER,
)
_VALUE = onnx.ValueInfoProto
_DECLARED = (
    _VALUE.NAME_FIELD_NUMBER,
    _VALUE.TYPE_FIELD_NUMBER,
    _VALUE.DOC_STRING_FIELD_NUMBER,
    _VALUE.METADATA_PROPS_FIELD_NUMBER,
)
_ENTRY = (onnx.StringStringEntryProto.KEY_FIELD_NUMBER, onnx.StringStringEntryProto.VALUE_FIELD_NUMBER)
"""Fields that are texts or messages."""


class NodeColumns(NamedTuple):
    """What all nodes have: `made[i]` is an output of the node at position `makers[i]`, `read[i]` an input of
    `readers[i]`, both in the order of the nodes.

    `attributed` are the nodes with attributes, each with its form.
    """

    names: list[str]
    operators: list[tuple[str, str]]
    made: list[str]
    makers: list[int]
    read: list[str]
    readers: list[int]
    attributed: list[tuple[int, Form]]


def node_columns(nodes: Any) -> NodeColumns:
    """The columns of some nodes. Raises `DecodeError` where one that is packed is none."""
    return _packed_columns(nodes) if isinstance(nodes, Packed) else _columns(list(nodes))


def _columns(nodes: Sequence[onnx.NodeProto]) -> NodeColumns:
    made, makers = _flat([node.output[:] for node in nodes])
    read, readers = _flat([node.input[:] for node in nodes])
    return NodeColumns(
        names=[node.name for node in nodes],
        operators=[(node.domain, node.op_type) for node in nodes],
        made=made,
        makers=makers,
        read=read,
        readers=readers,
        attributed=[
            (position, Form(node.domain, node.op_type)) for position, node in enumerate(nodes) if node.attribute
        ],
    )


def _flat(names: Sequence[Sequence[str]]) -> tuple[list[str], list[int]]:
    """The names that nodes give, one after the other, and beside each the position of its node."""
    return list(chain.from_iterable(names)), [position for position, given in enumerate(names) for _ in given]


def _packed_columns(nodes: Packed[onnx.NodeProto]) -> NodeColumns:
    fields = read_fields(nodes.blobs[:], _READ)
    _require_metadata(fields, _NODE.METADATA_PROPS_FIELD_NUMBER)
    count = len(nodes)
    makers, made = fields.strings(_NODE.OUTPUT_FIELD_NUMBER)
    readers, read = fields.strings(_NODE.INPUT_FIELD_NUMBER)
    domains, op_types = (_last(fields, tag, count) for tag in (_NODE.DOMAIN_FIELD_NUMBER, _NODE.OP_TYPE_FIELD_NUMBER))
    operators = list(zip(domains, op_types, strict=True))
    columns = NodeColumns(
        names=_last(fields, _NODE.NAME_FIELD_NUMBER, count),
        operators=operators,
        made=made,
        makers=makers,
        read=read,
        readers=readers,
        attributed=_attributed(fields, operators),
    )
    return _completed(columns, {position: nodes[position] for position in fields.unread}) if fields.unread else columns


def _completed(columns: NodeColumns, unread: Mapping[int, onnx.NodeProto]) -> NodeColumns:
    """The columns with those nodes in their places that had to be asked one by one."""
    others = _columns(list(unread.values()))
    positions = list(unread)
    for position, name, operator in zip(positions, others.names, others.operators, strict=True):
        columns.names[position], columns.operators[position] = name, operator
    made, makers = _merged(columns.made, columns.makers, others.made, [positions[maker] for maker in others.makers])
    read, readers = _merged(columns.read, columns.readers, others.read, [positions[one] for one in others.readers])
    attributed = [*columns.attributed, *((positions[place], forms) for place, forms in others.attributed)]
    return columns._replace(
        made=made,
        makers=makers,
        read=read,
        readers=readers,
        attributed=sorted(attributed, key=itemgetter(0)),
    )


def _merged(
    names: Sequence[str], places: Sequence[int], more_names: Sequence[str], more_places: Sequence[int]
) -> tuple[list[str], list[int]]:
    names, places = [*names, *more_names], [*places, *more_places]
    order = sorted(range(len(places)), key=places.__getitem__)
    return [names[one] for one in order], [places[one] for one in order]


def _last(fields: Fields, tag: int, count: int) -> list[str]:
    """The text of a field that is there once: of a message that repeats it, the last; empty where it is absent."""
    owners, strings = fields.strings(tag)
    if owners == list(range(count)):
        return strings
    found = [""] * count
    for owner, string in zip(owners, strings, strict=True):
        found[owner] = string
    return found


def _attributed(fields: Fields, operators: Sequence[tuple[str, str]]) -> list[tuple[int, Form]]:
    stored: dict[int, list[bytes]] = {}
    for owner, attribute in zip(*fields.of(_NODE.ATTRIBUTE_FIELD_NUMBER), strict=True):
        stored.setdefault(owner, []).append(attribute)
    return [(owner, Form(*operators[owner], tuple(attributes))) for owner, attributes in stored.items()]


def declared_names(declarations: Any) -> list[str]:
    """The names of value_infos, in their order. Raises `DecodeError` where one that is packed is none."""
    if not isinstance(declarations, Packed):
        return [value.name for value in declarations]
    fields = read_fields(declarations.blobs[:], _DECLARED)
    _require_metadata(fields, _VALUE.METADATA_PROPS_FIELD_NUMBER)
    for form in set(fields.of(_VALUE.TYPE_FIELD_NUMBER)[1]):
        onnx.TypeProto.FromString(form)
    names = _last(fields, _VALUE.NAME_FIELD_NUMBER, len(declarations))
    for position in fields.unread:
        names[position] = declarations[position].name
    return names


def _require_metadata(fields: Fields, tag: int) -> None:
    """Raise `DecodeError` where a field of metadata is none."""
    _, entries = fields.of(tag)
    for position in read_fields(entries, _ENTRY).unread:
        onnx.StringStringEntryProto.FromString(entries[position])
