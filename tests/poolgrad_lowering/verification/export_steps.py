# SPDX-License-Identifier: Apache-2.0

"""The steps from a lowered model to one that ATC takes, written by hand: each changes a model, not its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from poolgrad_lowering.dialect import DOMAIN, OPS, function_body
from poolgrad_lowering.verification.graph.types import tensor_types

Step = Callable[[ModelProto], None]

_AS_THEY_ARE = {"AdaptiveMaxPool3DGrad", "AvgPool3DGrad"}


def rank_five(model: ModelProto) -> None:
    """Every 3-D operator of the dialect gets tensors of rank 5, and gives tensors of their former rank.

    But those of average pools, one of whose operands is the shape of x: `test_atc_export` proves their exports.
    """
    types, opset = tensor_types(model), model.opset_import[0].version
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for number, node in enumerate(nodes):
        if node.domain != DOMAIN or 5 not in OPS[node.op_type].ranks or node.op_type in _AS_THEY_ARE:
            model.graph.node.append(node)
            continue
        rank = next(len(types[name].dims or ()) for name in (*node.input, *node.output) if name in types)
        model.graph.node.extend(_wrapped(model.graph, node, number, rank, opset))


def _wrapped(graph: GraphProto, node: NodeProto, number: int, rank: int, opset: int) -> Iterator[NodeProto]:
    axes, name = list(range(2, 7 - rank)), f"axes of {number}"
    if axes and opset >= 13:
        graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), name))

    def view(op_type: str, source: str, result: str) -> NodeProto:
        if opset >= 13:
            return helper.make_node(op_type, [source, name], [result])
        return helper.make_node(op_type, [source], [result], axes=axes)

    if not axes:
        yield node
        return
    wide = NodeProto()
    wide.CopyFrom(node)
    for position, source in enumerate(node.input):
        wide.input[position] = f"{source} of rank 5 for {number}"
        yield view("Unsqueeze", source, wide.input[position])
    wide.output[:] = [f"{result} of rank 5" for result in node.output]
    _widen_onnx_window(wide, len(axes))
    yield wide
    for source, result in zip(wide.output, node.output, strict=True):
        yield view("Squeeze", source, result)


def _widen_onnx_window(node: NodeProto, missing: int) -> None:
    """Put entries for the new axes before those that a pool has for ONNX's MaxPool."""
    for attribute in node.attribute:
        neutral = 0 if attribute.name == "onnx_pads" else 1
        if attribute.name in ("onnx_kernel_shape", "onnx_strides", "onnx_dilations"):
            attribute.ints[:] = [neutral] * missing + list(attribute.ints)
        elif attribute.name == "onnx_pads":
            half, old = len(attribute.ints) // 2, list(attribute.ints)
            attribute.ints[:] = [0] * missing + old[:half] + [0] * missing + old[half:]


def unread_indices_taken_off(model: ModelProto) -> None:
    """MaxPool loses its Indices where nothing reads them, and they their value_info."""
    graph = model.graph
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for node in graph.node:
        if node.op_type == "MaxPool" and len(node.output) > 1 and node.output[1] not in read:
            gone = node.output.pop()
            kept = [value for value in graph.value_info if value.name != gone]
            del graph.value_info[:]
            graph.value_info.extend(kept)


def names_of_nodes(model: ModelProto) -> None:
    """Every node has another name."""
    for number, node in enumerate(model.graph.node):
        node.name = f"node {number}"


def adaptive_gradients_expanded(model: ModelProto) -> None:
    """AdaptiveMaxPool3DGrad becomes the nodes of its body, whose function goes if nothing else calls it."""
    types, opset = tensor_types(model), model.opset_import[0].version
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for number, node in enumerate(nodes):
        if (node.domain, node.op_type) == (DOMAIN, "AdaptiveMaxPool3DGrad"):
            body = function_body(node.op_type, opset, [types[node.output[0]].element])
            names = dict(zip((*body.input, *body.output), (*node.input, *node.output), strict=True))
            model.graph.node.extend(_inlined(body.node, names, f"expanded {number}/"))
        else:
            model.graph.node.append(node)
    unused_functions_gone(model)


def _inlined(nodes: list[NodeProto], names: dict[str, str], prefix: str) -> Iterator[NodeProto]:
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.name = prefix + node.name
        copy.input[:] = [names[name] for name in node.input]
        names.update({name: names.get(name, prefix + name) for name in node.output})
        copy.output[:] = [names[name] for name in node.output]
        for attribute in copy.attribute:
            if attribute.HasField("g"):
                inner = dict(names)
                for value in attribute.g.input:
                    inner[value.name] = prefix + value.name
                    value.name = inner[value.name]
                inside = list(_inlined(attribute.g.node, inner, prefix))
                del attribute.g.node[:]
                attribute.g.node.extend(inside)
                for value in attribute.g.output:
                    value.name = inner[value.name]
        yield copy


def unused_functions_gone(model: ModelProto) -> None:
    called = {(node.domain, node.op_type) for node in model.graph.node}
    kept = [function for function in model.functions if (function.domain, function.name) in called]
    del model.functions[:]
    model.functions.extend(kept)
    if not any(domain == DOMAIN for domain, _ in called):
        imports = [entry for entry in model.opset_import if entry.domain != DOMAIN]
        del model.opset_import[:]
        model.opset_import.extend(imports)


def unused_initializers_gone(model: ModelProto) -> None:
    read = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def weights_as_inputs(*names: str) -> Step:
    """Initializers become graph inputs of their type and shape."""

    def step(model: ModelProto) -> None:
        for name in names:
            tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
            model.graph.input.append(declared(name, tensor.data_type, list(tensor.dims)))
            model.graph.initializer.remove(tensor)

    return step


def declared(name: str, element: int, dims: list[int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, dims)


STEPS = (rank_five, unread_indices_taken_off, adaptive_gradients_expanded, unused_initializers_gone, names_of_nodes)
