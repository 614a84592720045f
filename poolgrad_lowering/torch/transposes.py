# SPDX-License-Identifier: Apache-2.0

"""Joins consecutive transpositions, which the gradients of matrix products leave behind."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, helper

from poolgrad_lowering.model.ir.graphs import names_read, remove_entries


def join_transposes(graph: GraphProto) -> None:
    """Write one Transpose for two that follow each other, and none where they cancel.

    The nodes are in topological order. Outputs of the graph, and what subgraphs read, keep their names.
    """
    named = {value.name for value in graph.output}
    named.update(name for node in graph.node for name in {*names_read([node])}.difference(node.input))
    sources: dict[str, tuple[str, list[int]]] = {}
    replaced: dict[str, str] = {}
    for node in graph.node:
        if not replaced.keys().isdisjoint(node.input):
            node.input[:] = [replaced.get(name, name) for name in node.input]
        order = _order(node)
        if not order:
            continue
        source, first = sources.get(node.input[0], (node.input[0], list(range(len(order)))))
        joined = [first[axis] for axis in order]
        if joined != sorted(joined):
            node.input[0] = source
            node.attribute[0].CopyFrom(helper.make_attribute("perm", joined))
            sources[node.output[0]] = source, joined
        elif node.output[0] not in named:
            replaced[node.output[0]] = source
    _drop_unread_transposes(graph, named)


def _order(node: NodeProto) -> list[int]:
    """Return the order of axes of a Transpose; none of another node, or where it is the default, the reverse one."""
    return list(node.attribute[0].ints) if node.op_type == "Transpose" and node.attribute else []


def _drop_unread_transposes(graph: GraphProto, named: set[str]) -> None:
    read, unread = set(named), set()
    for node in reversed(graph.node):
        if node.op_type == "Transpose" and node.output[0] not in read:
            unread.add(node.output[0])
        else:
            read.update(names_read([node]))
    remove_entries(graph.node, lambda node: not unread.isdisjoint(node.output))
    remove_entries(graph.value_info, lambda value: value.name in unread)
