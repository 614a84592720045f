# SPDX-License-Identifier: Apache-2.0

"""Takes sizes that no input has from tensors: what a strided convolution leaves of a symbolic size, or a mask selects.

Graph mode knows no numbers for such a size, which bounds of a Slice and the shape of an Expand would have to be. A
tensor tells it: by positions along its axis, and by zeros, of which an expansion is x − 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import added, is_written_in, put_in_place
from poolgrad_lowering.torch.internals.sizes import VIEWS
from poolgrad_lowering.torch.internals.tracing import is_known, is_number, unknown_sizes
from poolgrad_lowering.torch.own_operators import zeros_along

aten = torch.ops.aten
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
    for node in list(graph.nodes):
        if node.target in VIEWS:
            _compute_size(node)
        elif node.target is _EXPAND:
            _keep_sizes(node)
        told = _told(node, first)
        if told and not (node.target is _EXPAND and is_written(node)):
            for place in told.values():
                if place not in zeros:
                    zeros[place] = _zeros_of(*place)
            _subtract(node, {axis: zeros[place] for axis, place in told.items()})
        else:
            _learn(node, first)


def _learn(node: fx.Node, first: dict[sympy.Expr, tuple[fx.Node, int]]) -> None:
    """Note the sizes of a tensor that numbers decide, unless another one has them."""
    value = node.meta.get("val")
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        for axis, size in enumerate(value.shape):
            if unknown_sizes(size):
                first.setdefault(size.node.expr, (node, axis))


def _compute_size(view: fx.Node) -> None:
    """Let a view compute a size that the numbers in a tensor decide, if no other one is symbolic."""
    symbolic = [size for size in view.args[1] if isinstance(size, fx.Node)]
    if len(symbolic) == 1 and unknown_sizes(symbolic[0].meta["val"]):
        view.update_arg(1, [-1 if size in symbolic else size for size in view.args[1]])


def _keep_sizes(node: fx.Node) -> None:
    """Let an expansion keep a size of its source that the numbers in a tensor decide."""
    x, sizes = node.args[:2]
    first = len(sizes) - x.meta["val"].ndim
    kept = {
        axis: -1
        for axis, size in enumerate(x.meta["val"].shape, first)
        if unknown_sizes(size) and isinstance(sizes[axis], fx.Node) and is_known(size == sizes[axis].meta["val"])
    }
    node.update_arg(1, [kept.get(axis, size) for axis, size in enumerate(sizes)])


def _told(node: fx.Node, first: Mapping[sympy.Expr, tuple[fx.Node, int]]) -> dict[int, tuple[fx.Node, int]]:
    """Return the axes along which an expansion repeats one element as often as a tensor along one of its axes has.

    `first` are the first tensors, and their axes, with the sizes that numbers decide, of which some are products.
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
