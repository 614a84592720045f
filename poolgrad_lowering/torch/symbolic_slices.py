# SPDX-License-Identifier: Apache-2.0

"""Writes slices of axes of known sizes, as of a table of positions, such that the graph says how large they are.

torch knows that a symbolic end is not behind the last element. ONNX's Slice takes what is there, so that its size is
the end or that of the axis; a Gather of the first positions takes as many as there are positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from poolgrad_lowering.torch.internals.graphs import annotation, writes_to
from poolgrad_lowering.torch.internals.tracing import is_number

aten = torch.ops.aten


def select_by_positions(traced: fx.GraphModule) -> None:
    """Select by positions what a traced graph slices from the first element of a known size to a symbolic end.

    The gradient of such a slice, a part of zeros, is written to the positions.
    """
    graph = traced.graph
    for node in graph.find_nodes(op="call_function", target=aten.slice.Tensor):
        x, axis, *bounds = _with_defaults(node.args, (None, 0, None, None, 1))
        if _is_of_first(x, axis, bounds) and not writes_to(traced, x):
            _replace(graph, node, bounds[1], lambda positions, x=x, axis=axis: (x, axis, positions))
    for node in graph.find_nodes(op="call_function", target=aten.slice_scatter.default):
        x, part, axis, *bounds = _with_defaults(node.args, (None, None, 0, None, None, 1))
        if _is_of_first(x, axis, bounds):
            before = [None] * (axis % len(x.meta["val"].shape))
            _replace(graph, node, bounds[1], lambda at, x=x, before=before, part=part: (x, [*before, at], part))


def _with_defaults(given: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    return *given, *defaults[len(given) :]


def _is_of_first(x: fx.Node, axis: int, bounds: list[Any]) -> bool:
    """Whether a slice with this start, end and step begins with the first element and has a symbolic end."""
    start, end, step = bounds
    return not start and step == 1 and isinstance(end, fx.Node) and is_number(x.meta["val"].shape[axis])


def _replace(graph: fx.Graph, node: fx.Node, end: fx.Node, arguments: Any) -> None:
    """Put the operator of `_BY_POSITIONS` in place of a node, with arguments that are a function of the positions."""
    with graph.inserting_before(node):
        positions = graph.call_function(aten.arange.default, (end,), {"device": torch.device("cpu")})
        found = graph.call_function(_BY_POSITIONS[node.target], arguments(positions))
    positions.meta["custom"] = found.meta["custom"] = annotation(node)
    found.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(found)
    graph.erase_node(node)


_BY_POSITIONS: dict[Any, Any] = {
    aten.slice.Tensor: aten.index_select.default,
    aten.slice_scatter.default: aten.index_put.default,
}
