# SPDX-License-Identifier: Apache-2.0

"""The order of a step's nodes, which decides into how many parts onnxruntime divides it.

A provider that compiles whole parts of a graph, as the CANN provider does, gets the runs of its nodes between nodes of
other providers, in the order in which onnxruntime runs a graph (`session_order`). The nodes of pools go to another
provider. So a step has few parts if its pools run one after the other wherever they can: `arrange` writes the nodes
such that onnxruntime first runs what has the most pools behind it. In an Inception module, for example, that is the
branch with the pool, which then runs right after the pool before the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx
from onnx import NodeProto

Operands = Sequence[Sequence[int]]
"""For each node the nodes whose results it reads, as positions, ascending."""


def operands(nodes: Sequence[NodeProto]) -> Operands:
    """Return for each node of a graph without subgraphs the nodes whose results it reads."""
    producer = {name: position for position, node in enumerate(nodes) for name in node.output if name}
    return [sorted({producer[name] for name in node.input if name in producer}) for node in nodes]


def session_order(read: Operands) -> list[int]:
    """Return the order in which onnxruntime runs the nodes, if its optimisers leave them as they are.

    A depth-first search against the edges (onnxruntime's GraphViewer, Graph::ReverseDFSFrom): from the last node whose
    results no node reads to the first one, and at each node from the last operand to the first.
    """
    return _depth_first(read, reversed(_leaves(read)), reversed)


def arrange(graph: onnx.GraphProto) -> None:
    """Order the nodes of a step, in place, such that its pools run one after the other where they can."""
    nodes = list(graph.node)
    read = operands(nodes)
    behind = _pools_behind(nodes, read)

    def last_first(positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda position: (behind[position], position))

    # `session_order` turns round what it finds in the file, so what it is to visit first is written last.
    order = _depth_first(read, last_first(_leaves(read)), last_first)
    del graph.node[:]
    graph.node.extend(nodes[position] for position in order)


def count_runs(order: Iterable[int], is_elsewhere: Sequence[bool]) -> int:
    """Return the number of runs of nodes that are not elsewhere."""
    count, was_elsewhere = 0, True
    for position in order:
        count += was_elsewhere and not is_elsewhere[position]
        was_elsewhere = is_elsewhere[position]
    return count


def _leaves(read: Operands) -> list[int]:
    used = {position for positions in read for position in positions}
    return [position for position in range(len(read)) if position not in used]


def _depth_first(
    read: Operands, leaves: Iterable[int], visited_order: Callable[[Sequence[int]], Iterable[int]]
) -> list[int]:
    """Return the nodes, each after its operands, which are visited in this order."""
    found: list[int] = []
    visited: set[int] = set()
    for leaf in leaves:
        stack = [(leaf, False)]
        while stack:
            position, is_left = stack.pop()
            if is_left:
                found.append(position)
            elif position not in visited:
                visited.add(position)
                stack.append((position, True))
                stack += [(operand, False) for operand in reversed(list(visited_order(read[position])))]
    return found


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
