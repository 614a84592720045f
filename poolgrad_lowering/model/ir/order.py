# SPDX-License-Identifier: Apache-2.0

"""Orders of the nodes of a graph: a topological one, and the one in which onnxruntime runs them.

The latter decides where onnxruntime cuts the graph into parts. Nodes are positions here: the place of a node in the
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onnx import ModelProto, NodeProto

from poolgrad_lowering.model.ir.graphs import graphs, names_read

Operands = Sequence[Sequence[int]]
"""For each node the nodes whose results it reads, as positions, ascending."""


def sort_nodes(model: ModelProto) -> None:
    """Put the nodes of the main graph and of its subgraphs in topological order; what is in order stays as it is.

    onnxruntime takes nodes in any order. The rewrites for GE look at values in the order of the nodes.
    """
    for graph in graphs(model.graph):
        order = topological_order(graph.node)
        if order != list(range(len(order))):
            nodes = [graph.node[position] for position in order]
            del graph.node[:]
            graph.node.extend(nodes)


def topological_order(nodes: Sequence[NodeProto]) -> list[int]:
    """Return the nodes of a graph in topological order, which is theirs if they are in one."""
    return depth_first(operands(nodes), range(len(nodes)), iter)


def operands(nodes: Sequence[NodeProto]) -> Operands:
    """Return for each node of a graph the nodes whose results it, or a graph inside it, reads."""
    return operands_of_names([list(names_read([node])) for node in nodes], [node.output for node in nodes])


def operands_of_names(read: Sequence[Iterable[str]], made: Sequence[Iterable[str]]) -> Operands:
    """As `operands`, for the names that each node reads and makes."""
    producer = {name: position for position, names in enumerate(made) for name in names if name}
    return [sorted({producer[name] for name in names if name in producer}) for names in read]


def session_order(read: Operands) -> list[int]:
    """Return the order in which onnxruntime runs the nodes, if its optimisers leave them as they are.

    A depth-first search against the edges (onnxruntime's GraphViewer, Graph::ReverseDFSFrom): from the last node whose
    results no node reads to the first one, and at each node from the last operand to the first.
    """
    return depth_first(read, reversed(leaves(read)), reversed)


def leaves(read: Operands) -> list[int]:
    """Return the nodes whose results no node reads, ascending."""
    used = {position for positions in read for position in positions}
    return [position for position in range(len(read)) if position not in used]


def depth_first(
    read: Operands, starts: Iterable[int], visited_order: Callable[[Sequence[int]], Iterable[int]]
) -> list[int]:
    """Return the nodes that `starts` depend on, each after its operands, which are visited in `visited_order`."""
    found: list[int] = []
    visited: set[int] = set()
    for start in starts:
        stack = [(start, False)]
        while stack:
            position, is_left = stack.pop()
            if is_left:
                found.append(position)
            elif position not in visited:
                visited.add(position)
                stack.append((position, True))
                stack += [(operand, False) for operand in reversed(list(visited_order(read[position])))]
    return found
