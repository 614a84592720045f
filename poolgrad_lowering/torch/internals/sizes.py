# SPDX-License-Identifier: Apache-2.0

"""Of which tensors a traced graph reads its symbolic sizes.

What layers leave of a symbolic size is a sum or a rounded quotient. Two that a graph computes are equal to whoever does
the arithmetic; two that it reads of tensors are equal if the shapes are.
"""

from __future__ import annotations

from operator import add, floordiv, mul, sub
from typing import Any

import sympy
import torch
from torch import Tensor, fx

aten = torch.ops.aten

VIEWS = {aten.view.default, aten._unsafe_view.default}  # noqa: SLF001 - the names of operators
"""A view that joins axes for the gradient of a pool goes when that is lowered, unless something reads its sizes."""
_OF_SIZES = {aten.sym_size.int, add, sub, floordiv}
"""What gives a size that a tensor before may have: a product, of views, is computed."""


def read_sizes(graph: fx.Graph) -> None:
    """Let the nodes of a traced graph read each size of the first tensor that has it.

    Numbers of elements are products of sizes, since they have no translation. If a slice begins or ends at a symbolic
    size, torch assumes that there are so many elements, or that there are not; such sizes are read where torch does.
    """
    reader = _Reader(graph)
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target == aten.sym_numel.default:
                node.replace_all_uses_with(reader.product(node.args[0]))
                graph.erase_node(node)
                continue
            for operand in node.all_input_nodes:
                if (read := reader.read(operand)) is not None:
                    node.replace_input_with(operand, read)
        reader.learn(node)


class _Reader:
    """The first tensors of a graph that have symbolic sizes, and the nodes that read these."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._assumed = _assumed_symbols(graph)
        self._first: dict[sympy.Expr, tuple[fx.Node, int] | None] = {}  # and their axes; None where that is a view
        self._read: dict[sympy.Expr, fx.Node] = {}

    def learn(self, node: fx.Node) -> None:
        """Note the sizes of the tensor that a node makes, if it makes one."""
        value = node.meta.get("val")
        for axis, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.free_symbols.isdisjoint(self._assumed):
                self._first.setdefault(size.node.expr, None if node.target in VIEWS else (node, axis))

    def read(self, operand: fx.Node) -> fx.Node | None:
        """Return the node that reads a size of the first tensor that has it, in place of an operand; None if none."""
        value = operand.meta.get("val")
        if not isinstance(value, torch.SymInt):
            return None
        size = value.node.expr
        place = self._first.get(size)
        if place is None or not (operand.target in _OF_SIZES or size.has(sympy.Add, sympy.Function)):
            return None
        if size not in self._read:
            self._read[size] = _noted(self._graph.call_function(aten.sym_size.int, place), value)
        return self._read[size]

    def product(self, tensor: fx.Node) -> fx.Node | int:
        """Add nodes that multiply the sizes of a tensor, and return the last one."""
        count: fx.Node | int = 1
        for axis, size in enumerate(tensor.meta["val"].shape):
            own: fx.Node | int = size
            if isinstance(size, torch.SymInt):
                own = _noted(self._graph.call_function(aten.sym_size.int, (tensor, axis)), size)
                own = self.read(own) or own
            count = own if axis == 0 else self._product(count, own)
        return count

    def _product(self, *factors: fx.Node | int) -> fx.Node:
        values = (each.meta["val"] if isinstance(each, fx.Node) else each for each in factors)
        return _noted(self._graph.call_function(mul, factors), mul(*values))


def _noted(node: fx.Node, value: Any) -> fx.Node:
    node.meta["val"] = value
    return node


def _assumed_symbols(graph: fx.Graph) -> set[sympy.Symbol]:
    """Return the symbols of sizes at which slices begin or end that may be in front of the first element, or behind
    the last, and of the sizes of what they slice.
    """
    tensors = (value for node in graph.nodes if isinstance(value := node.meta.get("val"), Tensor))
    sizes = {_expression(size) for tensor in tensors for size in tensor.shape}
    found: set[sympy.Symbol] = set()
    for node in graph.find_nodes(op="call_function", target=aten.slice.Tensor):
        x, axis, *bounds = (*node.args, *[None] * 4)[:4]
        for bound in (each for each in bounds if isinstance(each, fx.Node)):
            place, size = map(_expression, (bound.meta["val"], x.meta["val"].shape[axis]))
            if place not in sizes or not (size - place).is_nonnegative:  # whatever torch assumes
                found |= place.free_symbols | size.free_symbols
    return found


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr
