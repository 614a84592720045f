# SPDX-License-Identifier: Apache-2.0

"""Gives the operators of the dialect the rank that they have in a graph of CANN, 5 for the 3-D operators, and sizes.

aclnn views tensors of rank 3 and 4 as (N, C, D, H, W); a graph does not. On Atlas A2 and A3 a node of another rank is
refused, and on Ascend 950 a gradient of rank 4 is taken for (C, D, H, W), which gives wrong results without an error.
An Unsqueeze adds the missing axes, which have size 1, before D, H or W, and a Squeeze removes them. Ascend's attributes
always name all three axes and stay; ONNX's, which the function body uses, get entries for the new axes, and so does the
shape of x where it is an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN, OPS, body_windows
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.ge.registered import PROTOTYPES
from poolgrad_lowering.ge.values import ValueTypes, all_numbers, operands_of
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.ir.graphs import graphs, names_of, names_read, opset_of

RANK = 5
_SIZES = (body_windows.KERNEL, body_windows.STRIDES, body_windows.DILATIONS)
_PADS = (body_windows.PADS, body_windows.COUNTED, body_windows.UNCOUNTED)
"""ONNX's window attributes with an entry for each axis, and with two. Those of average pools share names with these."""


def raise_ranks(model: ModelProto, opset: int, types: ValueTypes) -> int:
    """Bring every 3-D operator of the dialect to rank 5, and return the number of nodes that change.

    The new values are added to `types`. A node of unknown rank, or of a computed shape of x, stays as it is.
    """
    taken = names_of(model.graph)
    return sum(_Graph(graph, opset, types, taken).raise_nodes() for graph in graphs(model.graph))


def needs_rank_5(node: NodeProto) -> bool:
    """Whether the node is an operator of the dialect whose tensors have rank 5 in a graph of CANN."""
    return node.domain == DOMAIN and node.op_type in PROTOTYPES and PROTOTYPES[node.op_type].rank == RANK


def rank_of(node: NodeProto, types: ValueTypes) -> int | None:
    """Return the rank of a dialect node's tensors, which all have the same rank, or None if it is not known."""
    window = [attribute for attribute in node.attribute if attribute.name == body_windows.KERNEL]
    if window:
        return 2 + len(window[0].ints)
    operands = (*OPS[node.op_type].inputs, *OPS[node.op_type].outputs)
    pairs = zip(operands, (*node.input, *node.output), strict=False)
    tensors = [value for operand, value in pairs if operand.part is not Part.SIZES]
    return next((types.rank(value) for value in tensors if value in types.shapes), None)


def shape_operands(model: ModelProto) -> set[str]:
    """Return the operands of nodes of the dialect that are the shape of x."""
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    return {operands[Part.SIZES] for operands in map(operands_of, nodes) if Part.SIZES in operands}


def store_sizes(model: ModelProto, types: ValueTypes) -> int:
    """Give gradients of average pools a constant of the shape of x where it is known; return how many nodes change.

    GE infers the shape of the result from its numbers. Where they are computed, as by a Shape, all sizes of the result
    are unknown to it, and so are those of everything behind it. The new values are added to `types`.
    """
    taken, changed = names_of(model.graph), 0
    for graph in graphs(model.graph):
        writer = Writer(graph, opset_of(model), types, taken)
        for node in graph.node:
            sizes = operands_of(node).get(Part.SIZES)
            if sizes is None or types.numbers(sizes) is not None:
                continue
            known = all_numbers(types.vectors.get(sizes, (None,))) or types.sizes(node.output[0])
            if known is not None:
                name = writer.constant(f"{node.output[0]}/shape", np.array(known, np.int32))
                node.input[:] = [name if value == sizes else value for value in node.input]
                changed += 1
    return changed


class _Graph:
    """A graph whose nodes are raised. `_raised` are values of rank 5, by the value of lower rank that they replace."""

    def __init__(self, graph: GraphProto, opset: int, types: ValueTypes, taken: set[str]) -> None:
        self._graph = graph
        self._types = types
        self._writer = Writer(graph, opset, types, taken)
        self._raised: dict[str, str] = {}
        self._missing = [_missing_axes(node, types) for node in graph.node]
        others = (node for node, missing in zip(graph.node, self._missing, strict=True) if not missing)
        self._read = {*names_read(others), *(value.name for value in graph.output)}

    def raise_nodes(self) -> int:
        """Raise the nodes of the graph and return their number."""
        if not any(self._missing):
            return 0
        for node, missing in zip(self._graph.node, self._missing, strict=True):
            if missing:
                self._raise(node, missing)
            else:
                self._writer.keep(node)
        self._writer.replace_nodes()
        return sum(map(bool, self._missing))

    def _raise(self, node: NodeProto, missing: int) -> None:
        sizes, axes = operands_of(node).get(Part.SIZES), range(2, 2 + missing)
        inputs = [self._raised_input(value, axes, is_shape=value == sizes) for value in node.input]
        outputs = [self._new(value) if value else "" for value in node.output]
        self._raised.update(zip(node.output, outputs, strict=True))
        raised = deepcopy(node)
        raised.input[:], raised.output[:] = inputs, outputs
        _fill_window(raised, missing)
        self._writer.keep(raised)
        for value, result in zip(node.output, outputs, strict=True):
            if value in self._read:
                self._writer.along("Squeeze", result, axes, value)

    def _raised_input(self, value: str, axes: Sequence[int], *, is_shape: bool) -> str:
        """Return a value of rank 5 in place of an input, or a constant in place of the shape of x."""
        if value not in self._raised and is_shape:
            numbers = self._types.numbers(value) or []
            raised = [*numbers[:2], *[1] * len(axes), *numbers[2:]]
            self._raised[value] = self._writer.constant(f"{value}/5d", np.array(raised, np.int32))
        elif value not in self._raised:
            self._raised[value] = self._writer.along("Unsqueeze", value, axes, self._new(value))
        return self._raised[value]

    def _new(self, value: str) -> str:
        name = self._writer.name(f"{value}/5d")
        shape = self._types.shapes.get(value, ())
        raised = (*shape[:2], *[1] * (RANK - len(shape)), *shape[2:]) if shape else (None,) * RANK
        self._types.learn(name, self._types.elements.get(value), raised)
        return name


def _missing_axes(node: NodeProto, types: ValueTypes) -> int:
    """Return the number of axes that the tensors of a node lack; 0 for nodes that stay."""
    sizes = operands_of(node).get(Part.SIZES)
    if sizes is not None and types.numbers(sizes) is None:
        return 0
    return RANK - (rank_of(node, types) or RANK) if needs_rank_5(node) else 0


def _fill_window(node: NodeProto, missing: int) -> None:
    """Give ONNX's window attributes of a pool entries for the new axes: size 1, stride 1, no padding, no dilation."""
    for attribute in node.attribute:
        if attribute.name in _SIZES:
            attribute.ints[:] = [*[1] * missing, *attribute.ints]
        elif attribute.name == body_windows.OUTPUT_PADDING:
            attribute.ints[:] = [*[0] * missing, *attribute.ints]
        elif attribute.name in _PADS:
            half = len(attribute.ints) // 2
            before, after = attribute.ints[:half], attribute.ints[half:]
            attribute.ints[:] = [*[0] * missing, *before, *[0] * missing, *after]
