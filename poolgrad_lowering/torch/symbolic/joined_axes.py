# SPDX-License-Identifier: Apache-2.0

"""Keeps symbolic axes apart that a model joins to rows and parts again, as attention layers and token losses do.

To part them, a graph has to compute a shape, which GE has to know: one size can follow from the others, two cannot. So
what is computed of rows, each by itself, is computed before their axes are joined.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import added, is_elementwise, put_in_place
from poolgrad_lowering.torch.internals.sizes import VIEWS
from poolgrad_lowering.torch.internals.tracing import is_known, is_number

aten, product = torch.ops.aten, torch.ops.poolgrad_lowering.product.default

_OF_ONE_SHAPE = {
    aten.alias.default,
    aten.clone.default,
    aten._to_copy.default,  # noqa: SLF001 - the name of an operator
    aten.full_like.default,
    aten.rand_like.default,
    aten.randn_like.default,
}
"""Operators whose result has the shape of their operand, beside those that compute each element by itself."""

_ALONG_AXES = {
    aten._log_softmax.default,  # noqa: SLF001 - as above
    aten._softmax.default,  # noqa: SLF001 - as above
    aten.amax.default,
    aten.gather.default,
    aten.mean.dim,
    aten.scatter.value,
    aten.slice.Tensor,
    aten.squeeze.dims,
    aten.sum.dim_IntList,
    aten.unsqueeze.default,
}
"""Operators that compute along the axis, or the axes, of their second argument."""

_WHOLE = (0, sys.maxsize)
"""Start and end of a slice that takes all."""
_PRODUCTS = {aten.mm.default, aten.addmm.default}

Sizes: TypeAlias = Sequence[Any]
"""Sizes of axes, some of them symbolic."""


class _Apart(NamedTuple):
    """A node whose first axes, of these sizes, another node has as one, its rows."""

    node: fx.Node
    outer: Sizes


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Return torch's function; of two tensors with several symbolic sizes, a product that joins them where it has to.

    torch's own joins all axes of one tensor that are kept, and all that both have, and parts them again.
    """
    if operands and isinstance(operands[0], (list, tuple)):
        return einsum(equation, *operands[0])
    inputs, _, kept = equation.replace(" ", "").partition("->") if isinstance(equation, str) else ("", "", "")
    first, _, second = inputs.partition(",")
    named = list(zip((first, second), operands, strict=False))
    pairs = [pair for axes, x in named for pair in zip(axes, x.shape, strict=False)]
    sizes = dict(pairs)
    shared = [axis for axis in first if axis in second and axis in kept]
    summed = [axis for axis in first if axis in second and axis not in kept]
    is_product = len(operands) == len(named) and {*first} ^ {*second} <= {*kept} <= sizes.keys() > {*kept}
    has_each_once = all(len({*axes}) == len(axes) == x.ndim for axes, x in named)
    has_one_size = all(is_known(sizes[axis] == size) for axis, size in pairs)
    is_of_symbols = sum(not is_number(size) for size in sizes.values()) > 1
    if not (is_product and has_each_once and has_one_size and is_of_symbols):
        return torch.einsum(equation, *operands)
    rows, columns = ([axis for axis in axes if axis not in of] for axes, of in ((first, second), (second, first)))
    if sum(not is_number(sizes[axis]) for axis in columns) > sum(not is_number(sizes[axis]) for axis in rows):
        return einsum(f"{second},{first}->{kept}", *reversed(operands))

    def arranged(x: Tensor, axes: str, *parts: Sequence[str]) -> Tensor:
        order = [axes.index(axis) for part in parts for axis in part]
        return x.permute(order).reshape([prod(sizes[axis] for axis in part) for part in parts])

    left = arranged(operands[0], first, *shared, *([rows] if shared else rows), summed)
    right = arranged(operands[1], second, *shared, summed, columns)
    order = [*shared, *rows, *columns]
    is_of_vectors = shared and not (rows and columns)  # a product of no more elements than the operands have
    found = (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2) if is_of_vectors else left @ right
    return found.reshape([sizes[axis] for axis in order]).permute([order.index(axis) for axis in kept])


def leave_out_views(graph: fx.Graph) -> None:
    """Let views, products and transposed matrices read what a view before them is of.

    torch joins the first axes of both factors of a product, and parts them again.
    """
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target in VIEWS and node.args[0].target in VIEWS:
                node.replace_input_with(node.args[0], node.args[0].args[0])
            elif node.target is aten.bmm.default or _is_transposed(node):
                _read_all_axes(node)


def _is_transposed(node: fx.Node) -> bool:
    return node.target is aten.permute.default and node.args[1] == [0, 2, 1]


def _read_all_axes(node: fx.Node) -> None:
    """Compute matrices of tensors with all axes, and join these in the result, if views join those of each operand."""
    views: list[Any] = [operand for operand in node.args if isinstance(operand, fx.Node)]
    sources = [view.args[0] for view in views if view.target in VIEWS]
    outer = _shape(sources[0])[:-2] if sources else ()
    if len(outer) < 2 or len(sources) < len(views):
        return
    pairs = zip(sources, views, strict=True)
    if not all(_are_equal(_shape(source), [*outer, *_shape(view)[1:]]) for source, view in pairs):
        return
    first, last = views[0].args[1], views[-1].args[1]
    sizes = [first[0], *((first[1], last[2]) if len(views) > 1 else (first[2], first[1]))]
    sizes = [int(known) if is_number(known) else size for known, size in zip(_shape(node), sizes, strict=True)]
    if sizes.count(-1) > 1:
        return
    value: Tensor = sources[0].meta["val"]
    if len(views) > 1:
        found = added(node, product, *sources)
        found.meta["val"] = value.new_empty([*outer, *_shape(node)[1:]])
    else:
        order = [*range(len(outer)), len(outer) + 1, len(outer)]
        found = added(node, aten.permute.default, sources[0], order)
        found.meta["val"] = value.permute(order)
    put_in_place(added(node, aten.view.default, found, sizes), node)


def keep_axes_apart(graph: fx.Graph) -> None:
    """Compute of tensors what a traced graph computes of their rows, where it joins several symbolic axes to rows."""
    apart: dict[fx.Node, _Apart] = {}
    for node in list(graph.nodes):
        if not isinstance(node.meta.get("val"), Tensor):
            continue
        if _is_whole(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
            continue
        with graph.inserting_before(node):
            if node.target not in VIEWS:
                if not _spread_last(node):
                    _compute_apart(node, apart)
            elif (joined := _before_joining(graph, node)) is not None:
                apart[node] = joined
            elif (given := apart.get(node.args[0])) is not None and _begins_with(_shape(node), given.outer):
                node.replace_input_with(node.args[0], given.node)


def _is_whole(node: fx.Node) -> bool:
    """Whether a node is a view of all that it reads, as the slice in x[:, None], or one in its own shape."""
    if node.target is aten.expand.default or node.target in VIEWS:
        return _are_equal(_shape(node), _shape(node.args[0]))
    return node.target is aten.slice.Tensor and node.args[2:] == _WHOLE


def _before_joining(graph: fx.Graph, view: fx.Node) -> _Apart | None:
    """Return the tensor whose first axes a view joins, with the view's other axes; None if it joins none."""
    source = view.args[0]
    shape, (rows, *inner) = _shape(source), _shape(view) or [1]
    outer = next((shape[:count] for count in range(2, len(shape) + 1) if is_known(prod(shape[:count]) == rows)), ())
    if sum(not is_number(size) for size in outer) <= 1 or not all(map(is_number, inner)):
        return None
    if len(shape) == len(outer) + len(inner) and _begins_with(shape, [*outer, *inner]):
        return _Apart(source, outer)
    sizes = [graph.call_function(aten.sym_size.int, (source, axis)) for axis in range(len(outer))]
    return _Apart(added(view, aten.view.default, source, [*sizes, *inner]), outer)


def _compute_apart(node: fx.Node, apart: dict[fx.Node, _Apart]) -> None:
    """Compute a node before the axes of its operands are joined, if it computes of rows, and make its rows of that."""
    rows = _operands_of_rows(node)
    given = [apart[each] for each in rows if each in apart]
    if not given or len(given) < len(rows) or not all(_begins_with(each.outer, given[0].outer) for each in given):
        return
    outer, inner = given[0].outer, _shape(node)[1:]
    if not all(map(is_number, inner)):
        return
    args: list[Any] = [apart[each].node if each in rows else _unspread(each) for each in node.args]
    if node.target in _PRODUCTS:
        found = added(node, product, *args[-2:])
        if node.target is aten.addmm.default:
            found = added(node, aten.add.Tensor, found, args[0])
    else:
        if node.target in _ALONG_AXES:
            axes = [axis + len(outer) - 1 for axis in _axes(node)]
            args[1] = axes if isinstance(args[1], Sequence) else axes[0]
        found = added(node, node.target, *args, **node.kwargs)
    made = added(node, aten.view.default, found, [-1, *inner])
    put_in_place(made, node)
    apart[made] = _Apart(found, outer)


def _operands_of_rows(node: fx.Node) -> list[fx.Node]:
    """Return the operands of whose rows, each by itself, a node computes; none of another node."""
    operands = _tensors_read(node)
    if node.target in _PRODUCTS:
        return [] if node.kwargs else [node.args[-2]]
    if node.target in _ALONG_AXES:
        return operands if 0 not in (_axes(node) or [0]) else []
    if node.target in _OF_ONE_SHAPE or is_elementwise(node):
        shape = _shape(node)  # an operand of fewer axes, or of one row, is the same for all rows
        whole = [each for each in operands if len(_shape(_unspread(each))) == len(shape) > 0]
        rows = [each for each in whole if not is_known(_shape(each)[0] == 1)]
        return rows if any(_begins_with(_shape(each), shape) for each in rows) else []
    return []


def _spread_last(node: fx.Node) -> bool:
    """Compute a node of one number, and expand the result, if its operands are numbers that are expanded."""
    operands = _tensors_read(node)
    spread = [each for each in operands if _unspread(each) is not each]
    if not spread or not is_elementwise(node) or any(_shape(_unspread(each)) for each in operands):
        return False
    number = added(node, node.target, *map(_unspread, node.args), **node.kwargs)
    number.meta["val"] = node.meta["val"].new_empty(())
    put_in_place(added(node, aten.expand.default, number, spread[0].args[1]), node)
    return True


def _unspread(operand: Any) -> Any:
    """Return a number in place of a tensor of symbolic sizes to which a gradient expands it; else the operand."""
    if not isinstance(operand, fx.Node) or operand.target is not aten.expand.default:
        return operand
    number, sizes = operand.args
    is_spread = not _shape(number) and any(isinstance(size, fx.Node) for size in sizes)
    return number if is_spread else operand


def _tensors_read(node: fx.Node) -> list[fx.Node]:
    return [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), Tensor)]


def _axes(node: fx.Node) -> list[int]:
    """Return the axes along which an operator of `_ALONG_AXES` computes, counted from the first; none for all."""
    given: Any = node.args[1] if len(node.args) > 1 and node.args[1] is not None else []
    count = len(_shape(node.args[0])) + (node.target is aten.unsqueeze.default) or 1
    return [axis % count for axis in (given if isinstance(given, Sequence) else [given])]


def _shape(node: fx.Node) -> Sizes:
    return node.meta["val"].shape


def _are_equal(sizes: Sizes, others: Sizes) -> bool:
    return len(sizes) == len(others) and _begins_with(sizes, others)


def _begins_with(sizes: Sizes, first: Sizes) -> bool:
    return len(sizes) >= len(first) and all(is_known(one == other) for one, other in zip(sizes, first, strict=False))
