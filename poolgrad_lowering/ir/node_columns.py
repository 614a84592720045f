# SPDX-License-Identifier: Apache-2.0

"""The nodes of a graph as columns: one list per field for all nodes. Also the names of value_infos.

A pass over whole lists takes a fraction of the time of a pass that accesses every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import onnx

from poolgrad_lowering.ir.attributes import NodeSignature
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
"""Fields whose values are strings or messages."""


class NodeColumns(NamedTuple):
    """The fields of all nodes of a list.

    `names` and `operators` (domain, op type) have one entry per node. `output_names[i]` is an output of the node at
    position `producers[i]`, `input_names[i]` an input of the node at `consumers[i]`, both ordered by node.
    `with_attributes` has the position and signature of each node with attributes.
    """

    names: list[str]
    operators: list[tuple[str, str]]
    output_names: list[str]
    producers: list[int]
    input_names: list[str]
    consumers: list[int]
    with_attributes: list[tuple[int, NodeSignature]]


def node_columns(nodes: Any) -> NodeColumns:
    """The columns of a list of nodes. Raises `DecodeError` if a packed node is malformed."""
    return _packed_columns(nodes) if isinstance(nodes, Packed) else _columns(list(nodes))


def _columns(nodes: Sequence[onnx.NodeProto]) -> NodeColumns:
    output_names, producers = _flat([node.output[:] for node in nodes])
    input_names, consumers = _flat([node.input[:] for node in nodes])
    return NodeColumns(
        names=[node.name for node in nodes],
        operators=[(node.domain, node.op_type) for node in nodes],
        output_names=output_names,
        producers=producers,
        input_names=input_names,
        consumers=consumers,
        with_attributes=[
            (position, NodeSignature(node.domain, node.op_type))
            for position, node in enumerate(nodes)
            if node.attribute
        ],
    )


def _flat(names: Sequence[Sequence[str]]) -> tuple[list[str], list[int]]:
    """The names of all nodes in one list, and for each name the position of its node."""
    return list(chain.from_iterable(names)), [position for position, given in enumerate(names) for _ in given]


def _packed_columns(nodes: Packed[onnx.NodeProto]) -> NodeColumns:
    fields = read_fields(nodes.blobs[:], _READ)
    _require_metadata(fields, _NODE.METADATA_PROPS_FIELD_NUMBER)
    count = len(nodes)
    producers, output_names = fields.strings(_NODE.OUTPUT_FIELD_NUMBER)
    consumers, input_names = fields.strings(_NODE.INPUT_FIELD_NUMBER)
    domains, op_types = (_last(fields, tag, count) for tag in (_NODE.DOMAIN_FIELD_NUMBER, _NODE.OP_TYPE_FIELD_NUMBER))
    operators = list(zip(domains, op_types, strict=True))
    columns = NodeColumns(
        names=_last(fields, _NODE.NAME_FIELD_NUMBER, count),
        operators=operators,
        output_names=output_names,
        producers=producers,
        input_names=input_names,
        consumers=consumers,
        with_attributes=_attributed(fields, operators),
    )
    return _completed(columns, {position: nodes[position] for position in fields.unread}) if fields.unread else columns


def _completed(columns: NodeColumns, unread: Mapping[int, onnx.NodeProto]) -> NodeColumns:
    """The columns with the nodes added that `read_fields` left unread, by position."""
    others = _columns(list(unread.values()))
    positions = list(unread)
    for position, name, operator in zip(positions, others.names, others.operators, strict=True):
        columns.names[position], columns.operators[position] = name, operator
    added_producers = [positions[number] for number in others.producers]
    added_consumers = [positions[number] for number in others.consumers]
    output_names, producers = _merged(columns.output_names, columns.producers, others.output_names, added_producers)
    input_names, consumers = _merged(columns.input_names, columns.consumers, others.input_names, added_consumers)
    added = [(positions[number], signature) for number, signature in others.with_attributes]
    return columns._replace(
        output_names=output_names,
        producers=producers,
        input_names=input_names,
        consumers=consumers,
        with_attributes=sorted([*columns.with_attributes, *added]),
    )


def _merged(
    names: Sequence[str], places: Sequence[int], more_names: Sequence[str], more_places: Sequence[int]
) -> tuple[list[str], list[int]]:
    names, places = [*names, *more_names], [*places, *more_places]
    order = sorted(range(len(places)), key=places.__getitem__)
    return [names[one] for one in order], [places[one] for one in order]


def _last(fields: Fields, tag: int, count: int) -> list[str]:
    """The string of a singular field, per message: the last one if the field is repeated, empty if it is absent."""
    owners, strings = fields.strings(tag)
    if owners == list(range(count)):
        return strings
    found = [""] * count
    for owner, string in zip(owners, strings, strict=True):
        found[owner] = string
    return found


def _attributed(fields: Fields, operators: Sequence[tuple[str, str]]) -> list[tuple[int, NodeSignature]]:
    stored: dict[int, list[bytes]] = {}
    for owner, attribute in zip(*fields.of(_NODE.ATTRIBUTE_FIELD_NUMBER), strict=True):
        stored.setdefault(owner, []).append(attribute)
    return [(owner, NodeSignature(*operators[owner], tuple(attributes))) for owner, attributes in stored.items()]


def declared_names(declarations: Any) -> list[str]:
    """The names of value_infos, in order. Raises `DecodeError` if a packed one is malformed."""
    if not isinstance(declarations, Packed):
        return [value.name for value in declarations]
    fields = read_fields(declarations.blobs[:], _DECLARED)
    _require_metadata(fields, _VALUE.METADATA_PROPS_FIELD_NUMBER)
    for declared_type in set(fields.of(_VALUE.TYPE_FIELD_NUMBER)[1]):
        onnx.TypeProto.FromString(declared_type)
    names = _last(fields, _VALUE.NAME_FIELD_NUMBER, len(declarations))
    for position in fields.unread:
        names[position] = declarations[position].name
    return names


def _require_metadata(fields: Fields, tag: int) -> None:
    """Raise `DecodeError` if a metadata field is malformed."""
    _, entries = fields.of(tag)
    for position in read_fields(entries, _ENTRY).unread:
        onnx.StringStringEntryProto.FromString(entries[position])
