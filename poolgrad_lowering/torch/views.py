# SPDX-License-Identifier: Apache-2.0

"""Leaves out views of a traced graph. torch joins the first axes of both factors of a product, and parts them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from poolgrad_lowering.torch.internals.graphs import added, put_in_place
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


def _shape(node: fx.Node) -> Sequence[Any]:
    """Return the sizes of a tensor, one that equals no other where none are noted, as of a constant."""
    value: Tensor | None = node.meta.get("val")
    return [None] if value is None else value.shape


def _are_equal(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(sizes) == len(others) and all(is_known(one == other) for one, other in zip(sizes, others, strict=True))
