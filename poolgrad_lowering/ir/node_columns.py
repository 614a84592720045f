# SPDX-License-Identifier: Apache-2.0

"""The nodes of a graph as columns: one list per field for all nodes.

A pass over whole lists takes a fraction of the time of a pass that accesses every node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import onnx


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


def node_columns(nodes: Collection[onnx.NodeProto]) -> NodeColumns:
    """The columns of a list of nodes.

    One column is read after the other, and no node is kept: the objects of all nodes would not fit into caches.
    """
    columns = NodeColumns([node.name for node in nodes], defaultdict(list), [], [], [], [], [])
    _, operators, output_names, producers, input_names, consumers, attributes = columns
    for position, node in enumerate(nodes):
        operators[node.domain, node.op_type].append(position)
        if held := node.attribute[:]:
            attributes.append((position, held))
    for position, node in enumerate(nodes):
        outputs = node.output[:]
        output_names += outputs
        producers += [position] * len(outputs)
    for position, node in enumerate(nodes):
        inputs = node.input[:]
        input_names += inputs
        consumers += [position] * len(inputs)
    return columns
