# SPDX-License-Identifier: Apache-2.0

"""The nodes of a graph as columns: one list per field for all nodes.

A pass over whole lists takes a fraction of the time of a pass that accesses every node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx


@dataclass(frozen=True)
class NodeColumns:
    """The fields of all nodes of a list.

    `names` has one entry per node. `operators` has the positions of the nodes of each operator (domain, op type).
    `output_names[i]` is an output of the node at position `producers[i]`, `input_names[i]` an input of the node at
    `consumers[i]`, both ordered by node. `attributes` are the nodes that have some, by their positions, with all that
    they have.
    """

    names: list[str] = field(default_factory=list)
    operators: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    output_names: list[str] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    input_names: list[str] = field(default_factory=list)
    consumers: list[int] = field(default_factory=list)
    attributes: list[tuple[int, list[onnx.AttributeProto]]] = field(default_factory=list)


def node_columns(nodes: Iterable[onnx.NodeProto]) -> NodeColumns:
    """The columns of a list of nodes. No node is kept: what all of them take is more than there is in caches."""
    columns = NodeColumns()
    names, operators, attributes = columns.names, columns.operators, columns.attributes
    output_names, producers = columns.output_names, columns.producers
    input_names, consumers = columns.input_names, columns.consumers
    for position, node in enumerate(nodes):
        names.append(node.name)
        operators[node.domain, node.op_type].append(position)
        outputs, inputs = node.output[:], node.input[:]
        output_names += outputs
        producers += [position] * len(outputs)
        input_names += inputs
        consumers += [position] * len(inputs)
        if held := node.attribute[:]:
            attributes.append((position, held))
    return columns
