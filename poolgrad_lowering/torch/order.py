# SPDX-License-Identifier: Apache-2.0

"""The order of a step's nodes, which decides into how many parts onnxruntime divides it.

A provider that compiles whole parts of a graph, as the CANN provider does, gets the runs of its nodes between nodes of
other providers, in the order in which onnxruntime runs a graph (`ge.order`). The nodes of pools go to another
provider. So a step has few parts if its pools run one after the other wherever they can: `arrange` writes the nodes
such that onnxruntime first runs what has the most pools behind it. In an Inception module, for example, that is the
branch with the pool, which then runs right after the pool before the module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import NodeProto

from poolgrad_lowering.ge.order import Operands, depth_first, leaves, operands


def arrange(graph: onnx.GraphProto) -> None:
    """Order the nodes of a step, in place, such that its pools run one after the other where they can."""
    nodes = list(graph.node)
    read = operands(nodes)
    behind = _pools_behind(nodes, read)

    def last_first(positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda position: (behind[position], position))

    # `ge.order.session_order` turns round what it finds in the file, so what it is to visit first is written last.
    order = depth_first(read, last_first(leaves(read)), last_first)
    del graph.node[:]
    graph.node.extend(nodes[position] for position in order)


def _pools_behind(nodes: Sequence[NodeProto], read: Operands) -> list[int]:
    """Return for each node the number of pools, and of gradients of pools, that its results depend on."""
    ancestors = [0] * len(nodes)  # sets of positions, as bits
    for position, node in enumerate(nodes):
        ancestors[position] = 1 << position if _is_of_a_pool(node) else 0
        for operand in read[position]:
            ancestors[position] |= ancestors[operand]
    return [found.bit_count() for found in ancestors]


def _is_of_a_pool(node: NodeProto) -> bool:
    """Whether a node is a max pool, or adds to elements, as the gradient of one does."""
    adds = any(attribute.name == "reduction" and attribute.s == b"add" for attribute in node.attribute)
    return node.op_type == "MaxPool" or adds
