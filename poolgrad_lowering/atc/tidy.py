# SPDX-License-Identifier: Apache-2.0

"""Edits that ATC needs and that change no result: node names, outputs that nobody reads, weights as graph inputs."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import chain

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.atc.graphs import fresh, graphs, inputs_to_feed, names_read
from poolgrad_lowering.diagnostics.errors import UsageError
from poolgrad_lowering.dialect import DOMAIN

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


def name_nodes(model: ModelProto) -> int:
    """Give every node a name that no other node, graph input or initializer has; return how many names changed.

    In a graph of CANN, inputs and initializers are nodes too; an initializer's node is named after it and its place.
    """
    all_graphs = list(graphs(model.graph))
    stored = {tensor.name for graph in all_graphs for tensor in graph.initializer}
    taken = stored | {value.name for graph in all_graphs for value in graph.input}
    changed = 0
    for graph in all_graphs:
        for node in graph.node:
            wanted = node.name or next(iter(filter(None, node.output)), node.op_type)
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
        read = {*names_read(graph.node), *(value.name for value in graph.output)}
        for node in graph.node:
            if is_max_pool(node) and len(node.output) > 1 and node.output[1] not in read:
                dropped += bool(node.output[1])
                del node.output[1:]
    return dropped


def is_max_pool(node: NodeProto) -> bool:
    """Whether the node is ONNX's MaxPool."""
    return node.op_type == "MaxPool" and node.domain in ("", "ai.onnx")


def drop_stale_value_infos(model: ModelProto) -> None:
    """Remove the declarations of values that no longer exist."""
    for graph in graphs(model.graph):
        made = {value for node in graph.node for value in node.output}
        made.update(tensor.name for tensor in graph.initializer)
        made.update(value.name for value in graph.input)
        for position in reversed(range(len(graph.value_info))):
            if graph.value_info[position].name not in made:
                del graph.value_info[position]


def drop_unused_import(model: ModelProto) -> None:
    """Remove the import of the dialect's domain if no node and no function of it is left."""
    of_functions = (function.domain for function in model.functions)
    nodes = (node.domain for graph in graphs(model.graph) for node in graph.node)
    inner = (node.domain for function in model.functions for node in function.node)
    if DOMAIN in chain(of_functions, nodes, inner):
        return
    for position in reversed(range(len(model.opset_import))):
        if model.opset_import[position].domain == DOMAIN:
            del model.opset_import[position]


def make_inputs(model: ModelProto, patterns: Sequence[str]) -> list[str]:
    """Make graph inputs of the floating-point initializers of the main graph that match a pattern; return their names.

    A pattern is a name or a glob such as `*.weight`. An input that has a default loses it. The values are not kept.
    Raises `UsageError` for a pattern that matches nothing.
    """
    graph = model.graph
    weights = [tensor.name for tensor in graph.initializer if tensor.data_type in _FLOATS]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in weights):
            raise UsageError(f"'{pattern}' matches no floating-point initializer of the main graph")
    chosen = {name for name in weights if any(fnmatchcase(name, pattern) for pattern in patterns)}
    _declare_inputs(graph, chosen)
    for position in reversed(range(len(graph.initializer))):
        if graph.initializer[position].name in chosen:
            del graph.initializer[position]
    return [name for name in weights if name in chosen]


def _declare_inputs(graph: GraphProto, chosen: set[str]) -> None:
    declared = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name in chosen - declared:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def defaults(model: ModelProto) -> list[str]:
    """Return the graph inputs that have an initializer as default. ATC makes constants of them."""
    fed = {value.name for value in inputs_to_feed(model)}
    return [value.name for value in model.graph.input if value.name not in fed]
