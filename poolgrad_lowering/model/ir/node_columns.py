# SPDX-License-Identifier: Apache-2.0

"""The nodes of a graph as columns: one list per field for all nodes.

A pass over whole lists takes a fraction of the time of a pass that accesses every node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import onnx

_BLOCK = 500
"""The number of nodes that are read at a time: protobuf makes objects of what is read, and so they stay in caches."""


class NodeColumns(NamedTuple):
    """The fields of all nodes of a list.

    `names` has one entry per node, `operators` the positions of the nodes of each operator (domain, op type).
    `output_names[i]` is an output of the node at position `producers[i]`, `input_names[i]` an input of the node at
    `consumers[i]`, both ordered by node. `attributes` has the nodes with attributes: position and attributes.
    """

    names: list[str]
    operators: dict[tuple[str, str], list[int]]
    output_names: list[str]
    producers: list[int]
    input_names: list[str]
    consumers: list[int]
    attributes: list[tuple[int, list[onnx.AttributeProto]]]


def node_columns(nodes: Sequence[onnx.NodeProto]) -> NodeColumns:
    """The columns of a list of nodes."""
    columns = NodeColumns([], defaultdict(list), [], [], [], [], [])
    for first in range(0, len(nodes), _BLOCK):
        block = nodes[first : first + _BLOCK]
        columns.names.extend([node.name for node in block])
        for position, operator in enumerate([(node.domain, node.op_type) for node in block], first):
            columns.operators[operator].append(position)
        outputs, inputs = [node.output[:] for node in block], [node.input[:] for node in block]
        columns.output_names.extend(chain.from_iterable(outputs))
        columns.producers.extend([position for position, names in enumerate(outputs, first) for _ in names])
        columns.input_names.extend(chain.from_iterable(inputs))
        columns.consumers.extend([position for position, names in enumerate(inputs, first) for _ in names])
        attributes = enumerate([node.attribute for node in block], first)
        columns.attributes.extend([(position, held[:]) for position, held in attributes if held])
    return columns
