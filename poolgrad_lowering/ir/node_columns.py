# SPDX-License-Identifier: Apache-2.0

"""The nodes of a graph as columns: one list per field for all nodes.

A pass over whole lists takes a fraction of the time of a pass that accesses every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import onnx


class NodeColumns(NamedTuple):
    """The fields of all nodes of a list.

    `names` and `operators` (domain, op type) have one entry per node. `output_names[i]` is an output of the node at
    position `producers[i]`, `input_names[i]` an input of the node at `consumers[i]`, both ordered by node.
    `attributes` are the nodes that have some, by their positions, with all that they have.
    """

    names: list[str]
    operators: list[tuple[str, str]]
    output_names: list[str]
    producers: list[int]
    input_names: list[str]
    consumers: list[int]
    attributes: list[tuple[int, list[onnx.AttributeProto]]]


def node_columns(nodes: Iterable[onnx.NodeProto]) -> NodeColumns:
    """The columns of a list of nodes."""
    nodes = list(nodes)
    output_names, producers = _flat([node.output[:] for node in nodes])
    input_names, consumers = _flat([node.input[:] for node in nodes])
    return NodeColumns(
        names=[node.name for node in nodes],
        operators=list(map(attrgetter("domain", "op_type"), nodes)),
        output_names=output_names,
        producers=producers,
        input_names=input_names,
        consumers=consumers,
        attributes=[(number, held[:]) for number, held in enumerate(map(attrgetter("attribute"), nodes)) if held],
    )


def _flat(names: Sequence[Sequence[str]]) -> tuple[list[str], list[int]]:
    """The names of all nodes in one list, and for each name the position of its node."""
    return list(chain.from_iterable(names)), [position for position, given in enumerate(names) for _ in given]
