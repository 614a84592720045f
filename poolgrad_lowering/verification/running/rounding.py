# SPDX-License-Identifier: Apache-2.0

"""Keeps every rounding of half precision when onnxruntime runs a model on the CPU.

onnxruntime computes most operators of half precision in float32 there. Between two of them it removes the conversion to
half precision and back, together with its rounding; which roundings are left depends on the operators around. An
Identity after each node, which has a kernel for half precision, separates all pairs.
"""

from __future__ import annotations

from copy import deepcopy

from onnx import GraphProto, ModelProto, TensorProto, helper

from poolgrad_lowering.verification.graph.protos import replace_nodes, subgraphs

_HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def has_half_precision(model: ModelProto) -> bool:
    """Whether an input, an initializer, a declared value or a conversion of the main graph has half precision."""
    graph = model.graph
    declared = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output, *graph.value_info)}
    declared.update(tensor.data_type for tensor in graph.initializer)
    declared.update(a.i for node in graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to")
    return not declared.isdisjoint(_HALF)


def with_every_rounding(model: ModelProto) -> ModelProto:
    """Return the model with an Identity after each node, to be run without optimisations."""
    copied = deepcopy(model)
    _separate(copied.graph)
    return copied


def _separate(graph: GraphProto) -> None:
    nodes = []
    for node in graph.node:
        for _, inner in subgraphs(node):
            _separate(inner)
        kept = deepcopy(node)
        nodes.append(kept)
        for position, value in enumerate(node.output):
            if value:
                kept.output[position] = f"{value} (before its rounding)"
                nodes.append(helper.make_node("Identity", [kept.output[position]], [value]))
    replace_nodes(graph, nodes)
