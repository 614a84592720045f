# SPDX-License-Identifier: Apache-2.0

"""Reads sizes of tensors that a graph computes of the sizes of its inputs.

What layers leave of a symbolic size is a sum or a rounded quotient. Two that a graph computes are equal to whoever does
the arithmetic; two that it reads of tensors are equal if the shapes are.
"""

from __future__ import annotations

import onnx
import sympy
import torch
from onnx import NodeProto, helper
from torch import Tensor, fx

from poolgrad_lowering.model.ir.graphs import names_captured, remove_entries
from poolgrad_lowering.torch.internals.tracing import is_number


def read_sizes(graph: onnx.GraphProto, traced: fx.Graph) -> None:
    """Read sizes that are sums or quotients of tensors that have them, in a graph exported of a traced one."""
    writer = _Writer({node.name: node.meta.get("val") for node in traced.nodes})
    for node in list(graph.node):
        writer.write(node)
    del graph.node[:]
    graph.node.extend(writer.nodes)
    remove_entries(graph.value_info, lambda value: value.name in writer.waiting)


class _Writer:
    """The nodes of a graph. What is computed of sizes, which torch does first, is `waiting` until it is read."""

    def __init__(self, values: dict[str, object]) -> None:
        self.nodes: list[NodeProto] = []
        self._values = values
        self.waiting: dict[str, NodeProto] = {}
        self._tensors: dict[sympy.Expr, tuple[str, int]] = {}  # and their axes, by the size
        self._read: dict[sympy.Expr, str] = {}

    def write(self, node: NodeProto) -> None:
        """Add a node, with sizes that are read where tensors before it have them."""
        if len(node.output) == 1 and self._size(node.output[0]) is not None:
            self.waiting[node.output[0]] = node
            return
        for name in names_captured(node):
            self._compute(name)
        node.input[:] = list(map(self._operand, node.input))
        self.nodes.append(node)
        for name in node.output:
            value = self._values.get(name)
            for axis, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
                if not is_number(size):
                    self._tensors.setdefault(size.node.expr, (name, axis))

    def _size(self, name: str) -> sympy.Expr | None:
        """Return the sum or quotient that a value is, or None."""
        value = self._values.get(name)
        size = value.node.expr if isinstance(value, torch.SymInt) else None
        return size if size is not None and size.has(sympy.Add, sympy.Function) else None

    def _operand(self, name: str) -> str:
        """Return the name under which a node reads a value."""
        size = self._size(name)
        if size not in self._tensors:
            self._compute(name)
            return name
        if size not in self._read:
            source, axis = self._tensors[size]
            self._read[size] = f"{name}.read"
            shape = helper.make_node("Shape", [source], [f"{name}.shape"], f"{name}/shape", start=axis, end=axis + 1)
            self.nodes += [shape, helper.make_node("Squeeze", shape.output, [f"{name}.read"], f"{name}/read")]
        return self._read[size]

    def _compute(self, name: str) -> None:
        """Add the node of a value that waits."""
        if (node := self.waiting.pop(name, None)) is not None:
            node.input[:] = list(map(self._operand, node.input))
            self.nodes.append(node)
