# SPDX-License-Identifier: Apache-2.0

"""Takes sizes that no input has from tensors, as what a strided convolution leaves of a symbolic size.

Graph mode knows no numbers for such a size, which bounds of a Slice and the shape of an Expand would have to be. A
tensor tells it: by positions along its axis, and by zeros, of which an expansion is x − 0.
"""

from __future__ import annotations

import sympy
import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import annotation, writes_to
from poolgrad_lowering.torch.internals.sizes import assumed_symbols
from poolgrad_lowering.torch.internals.tracing import is_number
from poolgrad_lowering.torch.own_operators import zeros_along

aten = torch.ops.aten
_ZEROS_ALONG = torch.ops.poolgrad_lowering.zeros_along.default
_EXPAND = aten.expand.default
_EXPANSIONS = {_EXPAND, aten.full.default}


def positions_along(x: Tensor, axis: int, start: int = 0, step: int = 1) -> Tensor:
    """Return as many positions, from `start` on, every `step`, as x has elements along an axis."""
    return (zeros_along(x, axis) + step).cumsum(0) + (start - step)


def expand_by_tensors(traced: fx.GraphModule) -> None:
    """Subtract zeros in place of the expansions of a traced graph to sums and quotients of symbolic sizes."""
    graph = traced.graph
    tensors: dict[sympy.Expr, tuple[fx.Node, int]] = {}
    zeros: dict[sympy.Expr, fx.Node] = {}
    assumed = assumed_symbols(graph)
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            continue
        told = [axis for axis in _expanded(node) if value.shape[axis].node.expr in tensors]
        if told and value.dtype != torch.bool and not writes_to(traced, node):
            for axis in told:
                size = value.shape[axis].node.expr
                zeros.setdefault(size, _zeros_of(graph, *tensors[size]))
            _subtract(graph, node, {axis: zeros[value.shape[axis].node.expr] for axis in told})
        elif value.is_floating_point() and node.target not in _EXPANSIONS:
            for axis, size in enumerate(value.shape):
                if not is_number(size) and assumed.isdisjoint(size.node.expr.free_symbols):
                    tensors.setdefault(size.node.expr, (node, axis))


def _expanded(node: fx.Node) -> list[int]:
    """Return the axes along which an expansion repeats one element as often as a sum or a quotient says."""
    if node.target not in _EXPANSIONS:
        return []
    shape, source = node.meta["val"].shape, node.args[0].meta["val"].shape if node.target is _EXPAND else ()
    own = [1] * (len(shape) - len(source)) + list(source)
    axes = [axis for axis, size in enumerate(own) if is_number(size) and size == 1 and not is_number(shape[axis])]
    return [axis for axis in axes if shape[axis].node.expr.has(sympy.Add, sympy.Function)]


def _zeros_of(graph: fx.Graph, tensor: fx.Node, axis: int) -> fx.Node:
    with graph.inserting_after(tensor):
        found = graph.call_function(_ZEROS_ALONG, (tensor, axis))
    found.meta["custom"] = annotation(tensor)
    return found


def _subtract(graph: fx.Graph, node: fx.Node, zeros: dict[int, fx.Node]) -> None:
    """Let an expansion have one element along axes, whose sizes the result gets of zeros."""
    value = node.meta["val"]
    sizes = [1 if axis in zeros else size for axis, size in enumerate(node.args[node.target is _EXPAND])]
    args = (node.args[0], sizes) if node.target is _EXPAND else (sizes, *node.args[1:])
    made = [node]
    with graph.inserting_before(node):
        made.append(graph.call_function(node.target, args, node.kwargs))
        for axis, row in zeros.items():
            like = graph.call_function(aten._to_copy.default, (row,), {"dtype": value.dtype})  # noqa: SLF001 - its name
            like = graph.call_function(aten.view.default, (like, [-1] + [1] * (value.ndim - axis - 1)))
            made += [like, graph.call_function(aten.sub.Tensor, (made[-1], like))]
    for each in made[1:]:
        each.meta["custom"] = annotation(node)
    made[-1].meta["val"] = value
    node.replace_all_uses_with(made[-1])
    graph.erase_node(node)
