# SPDX-License-Identifier: Apache-2.0

"""Weights of an exported model as graph inputs, so that ATC does not make constants of them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from onnx import GraphProto, ModelProto, TensorProto, helper

from poolgrad_lowering.diagnostics.errors import UsageError
from poolgrad_lowering.ir.graphs import inputs_to_feed

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


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
