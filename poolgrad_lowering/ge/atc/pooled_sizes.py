# SPDX-License-Identifier: Apache-2.0

"""Makes a constant of the shape of x that a gradient of an average pool has as an operand.

GE infers the shape of the result from its numbers. Where they are computed, as by a Shape, all sizes of the result are
unknown to it, and so are those of everything behind it.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto

from poolgrad_lowering.ge.values import ValueTypes, shape_operand
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.ir.graphs import graphs, names_of, opset_of


def shape_operands(model: ModelProto) -> set[str]:
    """Return the operands of nodes of the dialect that are the shape of x."""
    found = (shape_operand(node) for graph in graphs(model.graph) for node in graph.node)
    return {value for value in found if value is not None}


def store_sizes(model: ModelProto, types: ValueTypes) -> int:
    """Give nodes for whose x the sizes are known a constant with them, and return the number of nodes that change.

    The new values are added to `types`.
    """
    taken = names_of(model.graph)
    changed = 0
    for graph in graphs(model.graph):
        writer = Writer(graph, opset_of(model), types, taken)
        for node in graph.node:
            sizes = shape_operand(node)
            known = _known(node, sizes, types) if sizes is not None and types.numbers(sizes) is None else None
            if known is not None:
                name = writer.constant(f"{node.output[0]}/shape", np.array(known, np.int32))
                node.input[:] = [name if value == sizes else value for value in node.input]
                changed += 1
    return changed


def _known(node: NodeProto, sizes: str, types: ValueTypes) -> tuple[int, ...] | None:
    """Return the numbers of a shape that is computed, or the sizes of the result."""
    vector = types.vectors.get(sizes, (None,))
    numbers = tuple(size for size in vector if isinstance(size, int))
    return numbers if len(numbers) == len(vector) else types.sizes(node.output[0])
