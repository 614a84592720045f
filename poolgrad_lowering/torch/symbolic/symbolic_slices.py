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

from poolgrad_lowering.torch.internals.graphs import added, is_written_in, put_in_place
from poolgrad_lowering.torch.internals.tracing import is_known, is_number

aten = torch.ops.aten


_DEFAULTS: dict[Any, tuple[Any, ...]] = {
    aten.slice.Tensor: (None, 0, None, None, 1),
    aten.slice_scatter.default: (None, None, 0, None, None, 1),
}
"""The arguments of the operators where none are given."""


def select_by_positions(traced: fx.GraphModule, limits: Sequence[tuple[Any, int]]) -> None:
    """Select by positions what a traced graph slices from the first element of a known size to a symbolic end.

    The end is a size that is declared to be no larger: `limits` are symbolic sizes, and the largest number that each
    may be. The gradient of such a slice, a part of zeros, is written to the positions.
    """
    graph, is_written = traced.graph, is_written_in(traced)
    for node in [node for target in _DEFAULTS for node in graph.find_nodes(op="call_function", target=target)]:
        given: Any = (*node.args, *_DEFAULTS[node.target][len(node.args) :])
        x, *part, axis, start, end, step = given
        if start or step != 1 or not _is_limited(end, x.meta["val"].shape[axis], limits):
            continue
        if not part and is_written(x):
            continue
        with graph.inserting_before(node):
            positions = added(node, aten.arange.default, end, device=torch.device("cpu"))
            if part:
                before = [None] * (axis % len(x.meta["val"].shape))
                found = added(node, aten.index_put.default, x, [*before, positions], *part)
            else:
                found = added(node, aten.index_select.default, x, axis, positions)
        put_in_place(found, node)


def _is_limited(end: Any, size: Any, limits: Sequence[tuple[Any, int]]) -> bool:
    """Whether the end of a slice is a symbolic size that is never larger than the size of the axis, a number."""
    if not isinstance(end, fx.Node) or not is_number(size):
        return False
    return any(limit <= size and is_known(end.meta["val"] == own) for own, limit in limits)
