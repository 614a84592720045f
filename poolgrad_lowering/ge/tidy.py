# SPDX-License-Identifier: Apache-2.0

"""Edits that GE needs and that change no result: names of nodes, outputs that nobody reads, declarations."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto, helper

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ge.values import ValueTypes
from poolgrad_lowering.model.ir.graphs import domains_used, fresh, graphs, is_standard, names_read, remove_entries


def name_nodes(model: ModelProto, *, is_cut: bool = False) -> int:
    """Give every node a name that no other node, graph input or initializer has; return how many names changed.

    In a graph of CANN, inputs and initializers are nodes too; an initializer's node is named after it and its place. If
    the graph `is_cut` into several, any value may be an input of one of them, which its own producer is not in.
    """
    all_graphs = list(graphs(model.graph))
    stored = {tensor.name for graph in all_graphs for tensor in graph.initializer}
    taken = stored | {value.name for graph in all_graphs for value in graph.input}
    values = {name for graph in all_graphs for node in graph.node for name in node.output} if is_cut else set()
    changed = 0
    for graph in all_graphs:
        for node in graph.node:
            wanted = node.name or next(iter(filter(None, node.output)), node.op_type)
            if wanted in values and wanted not in node.output:
                wanted = fresh(f"{wanted}/{node.op_type}", values)
            initializer, _, number = wanted.rpartition("_Initializer_")
            name = fresh(f"{wanted}_" if initializer in stored and number.isdecimal() else wanted, taken)
            if name != node.name:
                node.name = name
                changed += 1
    return changed


def drop_unread_indices(model: ModelProto) -> int:
    """Take the Indices output off each MaxPool whose Indices nobody reads; return their number."""
    dropped = 0
    for graph in graphs(model.graph):
        pools = [
            node for node in graph.node if node.op_type == "MaxPool" and is_standard(node) and len(node.output) > 1
        ]
        read = {*names_read(graph.node), *(value.name for value in graph.output)} if pools else set()
        for node in pools:
            if node.output[1] not in read:
                dropped += bool(node.output[1])
                del node.output[1:]
    return dropped


def drop_unread(model: ModelProto, names: set[str]) -> None:
    """Remove initializers of these names, and the nodes that compute them, where nothing reads them any more."""
    while names:
        kept = {value.name for graph in graphs(model.graph) for value in graph.output}
        kept.update(name for graph in graphs(model.graph) for name in names_read(graph.node))
        dead = [node for graph in graphs(model.graph) for node in _remove(graph, names - kept)]
        names = names.union(name for node in dead for name in node.input) if dead else set()


def _remove(graph: GraphProto, unread: set[str]) -> list[NodeProto]:
    """Remove what defines these values in a graph, except inputs, and return the nodes."""
    inputs = {value.name for value in graph.input}
    dead = [node for node in graph.node if node.output and set(node.output) <= unread]
    remove_entries(graph.initializer, lambda tensor: tensor.name in unread - inputs)
    remove_entries(graph.node, lambda node: bool(node.output) and set(node.output) <= unread)
    return dead


def drop_stale_value_infos(model: ModelProto) -> None:
    """Remove the declarations of values that no longer exist."""
    for graph in graphs(model.graph):
        made = {name for node in graph.node for name in node.output}
        made.update(tensor.name for tensor in graph.initializer)
        made.update(value.name for value in graph.input)
        remove_entries(graph.value_info, lambda value: value.name not in made)  # noqa: B023 - called at once


def drop_unused_import(model: ModelProto) -> None:
    """Remove the import of the dialect's domain if no node and no function of it is left."""
    if DOMAIN not in domains_used(model):
        remove_entries(model.opset_import, lambda entry: entry.domain == DOMAIN)


def declare_results(model: ModelProto, types: ValueTypes) -> None:
    """Declare the shapes of the results of the dialect's nodes: inputs of GE's graphs have to have shapes."""
    for graph in graphs(model.graph):
        results = {name for node in graph.node if node.domain == DOMAIN for name in node.output}
        declared = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
        for name in sorted((results & types.shapes.keys() & types.elements.keys()) - declared):
            graph.value_info.append(helper.make_tensor_value_info(name, types.elements[name], types.shapes[name]))
