# SPDX-License-Identifier: Apache-2.0

"""Gives scalars as many axes as the tensors that they meet, where onnxruntime's CPU provider needs them to be fast.

It computes operators of elements in runs along the last axes. A run ends where an operand has no axis any more. So if
the last axis has one element, as in the weights of pointwise convolutions, all runs have one beside a scalar: an
element takes 30 to 90 ns in place of 0.3. A scalar of as many axes is as fast as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto

from poolgrad_lowering.model.facts.shape_rules import BROADCAST
from poolgrad_lowering.model.ir.graph_writer import GraphWriter
from poolgrad_lowering.model.ir.graphs import names_of, names_read, remove_entries

Sizes = Callable[[str], Sequence[int] | None]
"""Returns the shape of a value, with 0 for a size that is not known; None if not even the number of axes is."""

FEWEST = 64
"""From so many elements on, a computed scalar is worth the node that gives it axes. An unknown size counts as many."""


def declared_sizes(values: Iterable[ValueInfoProto]) -> Sizes:
    """Return the shapes of declared tensors."""
    tensors = ((value.name, value.type.tensor_type) for value in values)
    return {name: [dim.dim_value for dim in each.shape.dim] for name, each in tensors if each.HasField("shape")}.get


def give_axes(graph: GraphProto, sizes: Sizes) -> None:
    """Write scalars with more axes where nodes of a graph read them beside a tensor whose last axis has one element.

    `sizes` are of values that are no initializers. Nodes with operands of unknown shapes stay as they are.
    """
    fed = {value.name for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in fed}
    writer = GraphWriter(graph, names_of(graph))
    written: dict[tuple[str, int], str] = {}
    for node in graph.node:
        operands = node.input if node.op_type in BROADCAST and not node.domain else ()
        shapes = [constants[name].dims if name in constants else sizes(name) for name in operands]
        rank = _rank(shapes)
        for position, shape in enumerate(shapes if rank else ()):
            name = node.input[position]
            if shape is not None and len(shape) < rank and math.prod(shape) == 1:
                if (name, rank) not in written:
                    written[name, rank] = _with_axes(writer, name, rank, constants.get(name))
                node.input[position] = written[name, rank]
        writer.keep(node)
    writer.replace_nodes()
    read = {*names_read(graph.node), *(value.name for value in graph.output)}
    unread = constants.keys() & {name for name, _ in written} - read
    for entries in (graph.initializer, graph.value_info):
        remove_entries(entries, lambda entry: entry.name in unread)


def _rank(shapes: Sequence[Sequence[int] | None]) -> int:
    """Return how many axes the scalars among these operands of a node are to have; 0 if they stay as they are."""
    known = [shape for shape in shapes if shape is not None]
    largest = max(known, key=len, default=())
    is_slow = len(known) == len(shapes) and all([*shape[-1:]] in ([], [1]) for shape in known)
    return len(largest) if is_slow and math.prod(size or FEWEST for size in largest) >= FEWEST else 0


def _with_axes(writer: GraphWriter, name: str, rank: int, constant: TensorProto | None) -> str:
    """Write a scalar of so many axes, and return its name."""
    wanted = f"{name}.{rank}d"
    if constant is None:
        shape = writer.constant(f"{wanted}.shape", np.ones(rank, np.int64))
        return writer.add("Reshape", [name, shape], writer.name(wanted))
    tensor = TensorProto.FromString(constant.SerializeToString())
    tensor.name, tensor.dims[:] = wanted, [1] * rank
    return writer.tensor(tensor)
