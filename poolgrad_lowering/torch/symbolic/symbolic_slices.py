# SPDX-License-Identifier: Apache-2.0

"""Writes slices of axes of known sizes, as of a table of positions, such that the graph says how large they are.

Where a model declares that a symbolic end is not behind the last element, ONNX's Slice does not: its size is the end or
that of the axis. A Gather of the first positions takes as many as there are positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from poolgrad_lowering.torch.internals.graphs import annotation, is_written_in
from poolgrad_lowering.torch.internals.tracing import is_known, is_number

aten = torch.ops.aten


def select_by_positions(traced: fx.GraphModule, limits: Sequence[tuple[Any, int]]) -> None:
    """Select by positions what a traced graph slices from the first element of a known size to a symbolic end.

    The end is a size that is declared to be no larger: `limits` are symbolic sizes, and the largest number that each
    may be. The gradient of such a slice, a part of zeros, is written to the positions.
    """
    graph, is_written = traced.graph, is_written_in(traced)
    for node in graph.find_nodes(op="call_function", target=aten.slice.Tensor):
        x, axis, *bounds = _with_defaults(node.args, (None, 0, None, None, 1))
        if _is_of_first(x, axis, bounds, limits) and not is_written(x):
            _replace(graph, node, bounds[1], lambda positions, x=x, axis=axis: (x, axis, positions))
    for node in graph.find_nodes(op="call_function", target=aten.slice_scatter.default):
        x, part, axis, *bounds = _with_defaults(node.args, (None, None, 0, None, None, 1))
        if _is_of_first(x, axis, bounds, limits):
            before = [None] * (axis % len(x.meta["val"].shape))
            _replace(graph, node, bounds[1], lambda at, x=x, before=before, part=part: (x, [*before, at], part))


def _with_defaults(given: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    return *given, *defaults[len(given) :]


def _is_of_first(x: fx.Node, axis: int, bounds: list[Any], limits: Sequence[tuple[Any, int]]) -> bool:
    """Whether a slice with this start, end and step has the first elements, as many as a size with a limit says."""
    start, end, step = bounds
    size = x.meta["val"].shape[axis]
    if start or step != 1 or not isinstance(end, fx.Node) or not is_number(size):
        return False
    return any(limit <= size and is_known(end.meta["val"] == own) for own, limit in limits)


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
