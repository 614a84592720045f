# SPDX-License-Identifier: Apache-2.0

"""Leaves out views of a traced graph. torch joins the first axes of both factors of a product, and parts them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import annotation
from poolgrad_lowering.torch.internals.sizes import VIEWS
from poolgrad_lowering.torch.internals.tracing import is_known, is_number

aten, product = torch.ops.aten, torch.ops.poolgrad_lowering.product.default


def leave_out_views(graph: fx.Graph) -> None:
    """Let views, products and transposed matrices read what a view before them is of."""
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target in VIEWS:
                if node.args[0].target in VIEWS:
                    node.replace_input_with(node.args[0], node.args[0].args[0])
                if _are_equal(_shape(node), _shape(node.args[0])):
                    node.replace_all_uses_with(node.args[0])
            elif node.target is aten.bmm.default or _is_transposed(node):
                _read_all_axes(graph, node)


def _is_transposed(node: fx.Node) -> bool:
    return node.target is aten.permute.default and node.args[1] == [0, 2, 1]


def _read_all_axes(graph: fx.Graph, node: fx.Node) -> None:
    """Compute matrices of tensors with all axes, and join these in the result, if views join those of each operand."""
    views: list[Any] = [operand for operand in node.args if isinstance(operand, fx.Node)]
    sources = [view.args[0] for view in views if view.target in VIEWS]
    outer = _shape(sources[0])[:-2] if sources else ()
    if len(outer) < 2 or len(sources) < len(views):
        return
    if not all(
        _are_equal(_shape(each), [*outer, *_shape(view)[1:]]) for each, view in zip(sources, views, strict=True)
    ):
        return
    (first, *last), values = (view.args[1] for view in views), [each.meta["val"] for each in sources]
    if last:
        value = values[0].new_empty([*outer, *_shape(node)[1:]])
        found, sizes = graph.call_function(product, tuple(sources)), [first[0], first[1], last[0][2]]
    else:
        order = [*range(len(outer)), len(outer) + 1, len(outer)]
        value = values[0].permute(order)
        found, sizes = graph.call_function(aten.permute.default, (sources[0], order)), [first[0], first[2], first[1]]
    sizes = [int(known) if is_number(known) else size for known, size in zip(_shape(node), sizes, strict=True)]
    if sizes.count(-1) > 1:
        return
    found.meta |= {"val": value, "custom": annotation(node)}
    joined = graph.call_function(aten.view.default, (found, sizes))
    joined.meta.update(node.meta)
    node.replace_all_uses_with(joined)
    graph.erase_node(node)


def _shape(node: fx.Node) -> Sequence[Any]:
    """Return the sizes of a tensor, one that equals no other where none are noted, as of a constant."""
    value: Tensor | None = node.meta.get("val")
    return [None] if value is None else value.shape


def _are_equal(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(sizes) == len(others) and all(is_known(one == other) for one, other in zip(sizes, others, strict=True))
