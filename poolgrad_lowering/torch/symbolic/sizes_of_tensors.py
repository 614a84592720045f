# SPDX-License-Identifier: Apache-2.0

"""Takes sizes that no input has from tensors: what a strided convolution leaves of a symbolic size, or a mask selects.

Graph mode knows no numbers for such a size, which bounds of a Slice and the shape of an Expand would have to be. A
tensor tells it: by positions along its axis, and by zeros, of which an expansion is x − 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import added, is_written_in, put_in_place
from poolgrad_lowering.torch.internals.sizes import VIEWS
from poolgrad_lowering.torch.internals.tracing import is_known, is_number, unknown_sizes
from poolgrad_lowering.torch.own_operators import zeros_along

aten = torch.ops.aten
_IN_ROWS = torch.ops.poolgrad_lowering.in_rows.default
_ZEROS_ALONG = torch.ops.poolgrad_lowering.zeros_along.default
_EXPAND, _SIZE = aten.expand.default, aten.sym_size.int
_EXPANSIONS = {_EXPAND, aten.full.default}


def positions_along(x: Tensor, axis: int) -> Tensor:
    """Return as many positions, from 0 on, as x has elements along an axis."""
    return (zeros_along(x, axis) + 1).cumsum(0) - 1


def expand_by_tensors(traced: fx.GraphModule) -> None:
    """Subtract zeros in place of the expansions of a traced graph to sizes that no input has.

    The zeros are of the tensor of which the graph reads such a size.
    """
    graph, zeros = traced.graph, dict[tuple[fx.Node, int], fx.Node]()
    first, is_written = dict[sympy.Expr, tuple[fx.Node, int]](), is_written_in(traced)
    selects = any(unknown_sizes(node.meta.get("val")) for node in graph.nodes)
    for node in list(graph.nodes):
        if node.target in VIEWS and _is_in_rows(node) and not is_written(node):
            node = _put_in_rows(node)  # noqa: PLW2901
        elif node.target in VIEWS:
            _compute_size(node)
        elif node.target is _EXPAND:
            _keep_sizes(node, are_all=selects)
        told = _told(node, first)
        if told and not (node.target is _EXPAND and is_written(node)):
            for place in told.values():
                if place not in zeros:
                    zeros[place] = _zeros_of(*place)
            _subtract(node, {axis: zeros[place] for axis, place in told.items()})
        else:
            _learn(node, first)


def _learn(node: fx.Node, first: dict[sympy.Expr, tuple[fx.Node, int]]) -> None:
    """Note the sizes of a tensor that no input has, unless another one has them."""
    value = node.meta.get("val")
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        for axis, size in enumerate(value.shape):
            if not is_number(size) and _has_no_input(size):
                first.setdefault(size.node.expr, (node, axis))


def _is_in_rows(view: fx.Node) -> bool:
    """Whether a view parts a first axis, whose size the numbers in a tensor decide, to a symbolic number of rows.

    Such are the pairs beside the diagonal in a contrastive loss of a symbolic batch.
    """
    source: Any = view.args[0]
    before, after = ([*getattr(node.meta.get("val"), "shape", ())] for node in (source, view))  # none of added ones
    if not before or len(after) != len(before) + 1 or not unknown_sizes(before[0]) or unknown_sizes(after[0]):
        return False
    is_symbolic = not any(map(is_number, after[:2]))
    return is_symbolic and all(is_known(one == two) for one, two in zip(before[1:], after[2:], strict=True))


def _put_in_rows(view: fx.Node) -> fx.Node:
    """Return the node in place of such a view."""
    with view.graph.inserting_before(view):
        made = added(view, _IN_ROWS, view.args[0], *view.args[1][:2])
    put_in_place(made, view)
    return made


def _compute_size(view: fx.Node) -> None:
    """Let a view compute a size that the numbers in a tensor decide, if no other one is symbolic."""
    symbolic = [size for size in view.args[1] if isinstance(size, fx.Node)]
    if len(symbolic) == 1 and unknown_sizes(symbolic[0].meta["val"]):
        view.update_arg(1, [-1 if size in symbolic else size for size in view.args[1]])


def _keep_sizes(node: fx.Node, *, are_all: bool) -> None:
    """Let an expansion keep sizes of its source: all, or those that the numbers in a tensor decide.

    Where they do, a source may have no other sizes that GE knows either.
    """
    x, sizes = node.args[:2]
    first = len(sizes) - x.meta["val"].ndim
    kept = {
        axis: -1
        for axis, size in enumerate(x.meta["val"].shape, first)
        if (are_all or unknown_sizes(size))
        and isinstance(sizes[axis], fx.Node)
        and is_known(size == sizes[axis].meta["val"])
    }
    node.update_arg(1, [kept.get(axis, size) for axis, size in enumerate(sizes)])


def _told(node: fx.Node, first: Mapping[sympy.Expr, tuple[fx.Node, int]]) -> dict[int, tuple[fx.Node, int]]:
    """Return the axes along which an expansion repeats one element as often as a tensor along one of its axes has.

    `first` are the first tensors, and their axes, with the sizes that no input has.
    """
    value = node.meta.get("val")
    if node.target not in _EXPANSIONS or value.dtype == torch.bool:
        return {}
    source = node.args[0].meta["val"].shape if node.target is _EXPAND else ()
    own = [1] * (value.ndim - len(source)) + list(source)
    found = {}
    for axis, (before, size) in enumerate(zip(own, node.args[node.target is _EXPAND], strict=True)):
        is_repeated = is_number(before) and before == 1 and isinstance(size, fx.Node)
        if is_repeated and _has_no_input(size.meta["val"]):
            place = size.args if size.target is _SIZE else first.get(size.meta["val"].node.expr)
            if place is not None and place[0].meta["val"].dtype != torch.bool:
                found[axis] = place
    return found


def _has_no_input(size: torch.SymInt) -> bool:
    """Whether a size is what layers leave of a symbolic one, or what the numbers in a tensor decide."""
    return bool(size.node.expr.has(sympy.Add, sympy.Function) or unknown_sizes(size))


def _zeros_of(tensor: fx.Node, axis: int) -> fx.Node:
    with tensor.graph.inserting_after(tensor):
        return added(tensor, _ZEROS_ALONG, tensor, axis)


def _subtract(node: fx.Node, zeros: dict[int, fx.Node]) -> None:
    """Let an expansion have one element along axes, whose sizes the result gets of zeros."""
    value = node.meta["val"]
    sizes = [1 if axis in zeros else size for axis, size in enumerate(node.args[node.target is _EXPAND])]
    args = (node.args[0], sizes) if node.target is _EXPAND else (sizes, *node.args[1:])
    graph = node.graph
    with graph.inserting_before(node):
        made = added(node, node.target, *args, **node.kwargs)
        for axis, row in zeros.items():
            like = graph.call_function(aten._to_copy.default, (row,), {"dtype": value.dtype})  # noqa: SLF001 - its name
            like = added(node, aten.view.default, like, [-1] + [1] * (value.ndim - axis - 1))
            made = added(node, aten.sub.Tensor, made, like)
    put_in_place(made, node)
