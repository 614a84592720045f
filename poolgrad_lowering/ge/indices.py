# SPDX-License-Identifier: Apache-2.0

"""Proves that the indices which gradients of the dialect read are positions in a plane of x.

The provider trusts a pool that it ran itself. Indices that other nodes make it reads back to the host in each step, to
check them before a function of aclnn uses them. Where all are computed from tables of positions, as those of adaptive
pools are, no step needs this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from poolgrad_lowering.dialect.op import DOMAIN, Part
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.ge.values import ValueTypes, operands_of
from poolgrad_lowering.model.ir.graphs import graphs, is_standard

_SELECTING = (
    *("Expand", "Flatten", "Gather", "GatherElements", "Identity", "Reshape"),
    *("Slice", "Squeeze", "Transpose", "Unsqueeze"),
)
"""Operators whose results are elements of their first operand."""
_OF_PLANES = 2
"""The axis of the elements of planes in (N, C, elements)."""
_MOST_NODES = 64
"""Between a table and the indices."""


def indices_are_proven(model: ModelProto, types: ValueTypes) -> bool:
    """Whether the provider need not check the indices of any gradient. Those in branches are not proven."""
    producers = {name: node for node in model.graph.node for name in node.output}
    main, *inner = ([node for node in graph.node if _reads_indices(node)] for graph in graphs(model.graph))
    functions = [node for function in model.functions for node in function.node if _reads_indices(node)]
    return not (any(inner) or functions) and all(_is_proven(node, producers, types) for node in main)


def count_checked(model: ModelProto, types: ValueTypes) -> int:
    """Return how many gradients of the main graph have indices that the provider reads back and checks in each step."""
    if indices_are_proven(model, types):
        return 0
    producers = {name: node for node in model.graph.node for name in node.output}
    return sum(_reads_indices(node) and not _is_trusted(node, producers) for node in model.graph.node)


def _reads_indices(node: NodeProto) -> bool:
    return Part.ARGMAX in operands_of(node)


def _is_trusted(node: NodeProto, producers: Mapping[str, NodeProto]) -> bool:
    """Whether a pool of the provider makes the indices of the same x, which the provider sees by itself."""
    operands = operands_of(node)
    maker = producers.get(operands[Part.ARGMAX])
    return maker is not None and maker.domain == DOMAIN and maker.op_type in OPS and maker.input[0] == operands[Part.X]


def _is_proven(node: NodeProto, producers: Mapping[str, NodeProto], types: ValueTypes) -> bool:
    if _is_trusted(node, producers):
        return True
    operands = operands_of(node)
    x, argmax = operands[Part.X], operands[Part.ARGMAX]
    sizes = types.sizes(x, 2)
    if sizes is None:
        return _is_read(argmax, x, producers, types)
    bounds = _bounds(argmax, producers, types, _MOST_NODES)
    return bounds is not None and 0 <= bounds[0] <= bounds[1] < math.prod(sizes)


def _is_read(argmax: str, x: str, producers: Mapping[str, NodeProto], types: ValueTypes) -> bool:
    """Whether the graph reads planes of x at each position that indices can be, as `kept_indices` computes them.

    An index is one of several numbers plus a begin, and the windows are read at all begins plus all numbers.
    """
    known = {name: node for name, node in producers.items() if is_standard(node)}

    def made_by(name: str, op_type: str) -> NodeProto:
        node = known.get(name)
        return node if node is not None and node.op_type == op_type else NodeProto(input=[""] * 2)

    while (node := known.get(argmax)) is not None and (node.op_type == "Reshape" or _is_wide(node)):
        argmax = node.input[0]
    picked, begin = made_by(argmax, "Add").input
    listed = made_by(picked, "Gather").input[0]
    numbers = made_by(listed, "Reshape").input[0]
    lengths = [types.shapes.get(name, ())[-1:] for name in (begin, numbers)]
    if lengths != [(1,), types.sizes(listed)]:  # numbers on the last axis alone, and begins on the others
        return False
    for node in known.values():
        if node.op_type == "Gather" and [each.i for each in node.attribute] == [_OF_PLANES]:
            planes, table = made_by(node.input[0], "Reshape").input, made_by(node.input[1], "Add").input
            if [*table] == [begin, numbers] and planes[0] == x and types.numbers(planes[1]) == [0, 0, -1]:
                return True
    return False


def _is_wide(node: NodeProto) -> bool:
    """Whether a node casts to an element type that has all positions."""
    return node.op_type == "Cast" and node.attribute[0].i in _WIDE


def _bounds(name: str, producers: Mapping[str, NodeProto], types: ValueTypes, depth: int) -> tuple[int, int] | None:
    """Return the least and the largest number that a value of integers can have; None if they are not known."""
    tensor, node = types.constants.get(name), producers.get(name)
    if tensor is not None:
        is_stored = tensor.data_location != TensorProto.EXTERNAL and tensor.data_type in _WIDE
        numbers = numpy_helper.to_array(tensor) if is_stored else np.empty(0)
        return (int(numbers.min()), int(numbers.max())) if numbers.size else None
    if node is None or not depth or not is_standard(node):
        return None
    if node.op_type == "ArgMax":
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        sizes = types.shapes.get(node.input[0], ())
        size = sizes[axis] if -len(sizes) <= axis < len(sizes) else None
        return (0, size - 1) if isinstance(size, int) else None
    if node.op_type in _SELECTING or _is_wide(node):
        return _bounds(node.input[0], producers, types, depth - 1)
    if node.op_type == "Add":
        found = [_bounds(operand, producers, types, depth // 2) for operand in node.input]
        known = [each for each in found if each is not None]
        return (sum(low for low, _ in known), sum(high for _, high in known)) if len(known) == len(found) else None
    return None


_WIDE = (TensorProto.INT32, TensorProto.INT64)
