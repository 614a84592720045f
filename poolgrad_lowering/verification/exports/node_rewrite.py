# SPDX-License-Identifier: Apache-2.0

"""What may stand in place of a node, and what that depends on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph.protos import integers, replace_entries
from poolgrad_lowering.verification.graph.types import (
    AxisSize,
    TensorTypes,
    factors_of,
    known_sizes,
    multiple_of,
    rank_of,
)

NUMBERS = (
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE),
    *(TensorProto.INT32, TensorProto.INT64),
)
"""The element types of inputs that zeros are made of."""
FAR = 2**63 - 1
"""The end of a Slice that takes everything from its start on."""


MOST_NUMBERS = 1 << 24
"""In a constant of a rewrite; an export has no more."""

INNER = "\0"
"""What the names of values inside a rewrite begin with; other names are those of the graph."""

GivenOperand = str | AnyArray | Sequence[int]
"""A value by its name, or a constant; integers in a list are a vector of int64."""
SizedInput = tuple[int, str, int, Sequence[AxisSize]]
"""How many times a size an input of the graph has on one of its axes: the multiple, the input, the axis, its sizes."""


@dataclass
class NodeRewrite:
    """Nodes in place of a node, and the constants that they read, by name.

    `rounded`: runtimes compute the node with sums in another order, or draw other numbers, so results may differ.
    `reads` are the values of the graph that they read beside those of the node.
    """

    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, AnyArray] = field(default_factory=dict)
    rounded: bool = False
    reads: list[str] = field(default_factory=list)
    _names: Iterator[str] = field(default_factory=lambda: map(f"{INNER}{{}}".format, itertools.count()))

    def value(self, operand: GivenOperand | None = None) -> str:
        """Return the name of an operand, of a new value without one."""
        if isinstance(operand, str):
            return operand
        name = next(self._names)
        if operand is not None:
            self.constants[name] = operand if isinstance(operand, np.ndarray) else np.array(operand, np.int64)
        return name

    def add(self, op_type: str, *operands: GivenOperand, **attributes: Any) -> str:
        """Add a node with one output, and return the output, a new value."""
        output = self.value()
        self.into(output, op_type, *operands, **attributes)
        return output

    def into(self, output: str, op_type: str, *operands: GivenOperand, **attributes: Any) -> NodeRewrite:
        """Add a node with this output, and return the rewrite."""
        self.nodes.append(helper.make_node(op_type, list(map(self.value, operands)), [output], **attributes))
        return self

    def same(self, node: NodeProto, *operands: GivenOperand, **attributes: Any) -> NodeRewrite:
        """Add a copy of a node with other operands, if any are given, and attributes; return the rewrite."""
        self.nodes.append(same_but(node, list(map(self.value, operands)) or None, **attributes))
        return self

    def inner(self, position: int, node: NodeProto, *operands: GivenOperand, **attributes: Any) -> str:
        """As `same`, with a new value as the output at a position, which is returned."""
        output = self.same(node, *operands, **attributes).nodes[-1].output
        output[position] = self.value()
        return output[position]

    def reduction(self, op_type: str, value: str, axes: list[int], *, as_attribute: bool) -> str:
        """Add a reduction that keeps the axes."""
        if as_attribute:
            return self.add(op_type, value, axes=axes, keepdims=1)
        return self.add(op_type, value, axes, keepdims=1)

    def zeros(self, axis: int, rank: int, source: SizedInput, element: int) -> str:
        """Add zeros, of the size that an input has on an axis, for another axis of other ranks, as for graph mode.

        If the input has m times the size, every m-th element is taken.
        """
        multiple, name, held_axis, dims = source
        self.reads.append(name)
        if cut := [other for other, size in enumerate(dims) if other != held_axis and size != 1]:
            name = self.add("Slice", name, [0] * len(cut), [1] * len(cut), cut)
        if multiple > 1:
            name = self.add("Slice", self.add("Reshape", name, [-1, multiple]), [0], [1], [1])
        row = self.add("Reshape", name, [-1 if at == axis else 1 for at in range(rank)])
        false = self.add("Less", row, row)
        return false if element == TensorProto.BOOL else self.add("Cast", false, to=element)

    def zeros_of_product(self, axis: int, rank: int, sources: Sequence[int | SizedInput], element: int) -> str:
        """Add zeros of a product of sizes for an axis: those of each factor on an axis of its own, which are joined.

        A factor is a number, or an input that has the size.
        """
        value = ""
        for place, source in enumerate(sources):
            if not isinstance(source, int):
                zero = self.zeros(place, len(sources), source, element)
                value = self.add("Or" if element == TensorProto.BOOL else "Sub", value, zero) if value else zero
        numbers = [source if isinstance(source, int) else 1 for source in sources]
        if set(numbers) != {1}:
            value = self.add("Expand", value, numbers)
        return self.add("Reshape", value, [-1 if at == axis else 1 for at in range(rank)])

    def places(self, axis: int, rank: int, sources: Sequence[int | SizedInput]) -> str:
        """Add the numbers from 0 on along an axis, of the size that the sources have."""
        ones = self.add("Add", self.zeros_of(axis, rank, sources, TensorProto.INT64), [1])
        return self.add("CumSum", ones, np.array(axis), exclusive=1)

    def places_along(
        self, axis: int, rank: int, size: AxisSize, context: Context, measured: str | None = None
    ) -> tuple[str, GivenOperand] | None:
        """Add the numbers from 0 on along an axis and, for axes behind the first, their count; None if not known."""
        if isinstance(size, int) and size > MOST_NUMBERS:
            return None
        if isinstance(size, int):
            return self.value(np.arange(size).reshape([-1 if at == axis else 1 for at in range(rank)])), [size]
        if not (sources := context.sources(axis, None if measured else size, measured)):
            return None
        places = self.places(axis, rank, sources)
        last = self.add("Slice", places, [-1], [FAR], [axis]) if axis else ""
        return places, self.add("Add", last, [1]) if axis else ""

    def row_major(self, places: Sequence[GivenOperand], sizes: Sequence[GivenOperand]) -> str:
        """Add the places along all axes together, from those along each; the first axis needs no size."""
        index = self.value(places[0])
        for place, size in zip(places[1:], sizes, strict=True):
            index = self.add("Add", self.add("Mul", index, size), place)
        return index

    def zeros_of(self, axis: int, rank: int, sources: Sequence[int | SizedInput], element: int) -> str:
        """Add zeros of the size of the one source, or of the product of those of several ones."""
        [source, *others] = sources
        if others or isinstance(source, int):
            return self.zeros_of_product(axis, rank, sources, element)
        return self.zeros(axis, rank, source, element)


@dataclass(frozen=True)
class Context:
    """What a rewrite depends on: the opset, types, constants that no caller can override, and inputs of the graph.

    `measured` are the values whose shape a value is, and `planes` the pools of which a value has positions in planes.
    """

    opset: int
    types: TensorTypes
    constants: Mapping[str, TensorProto]
    inputs: Sequence[str] = ()
    measured: Mapping[str, str] = field(default_factory=dict)
    planes: Mapping[str, NodeProto] = field(default_factory=dict)

    def element(self, value: str) -> int | None:
        """Return the element type of a value, None if it is not known."""
        return self.types[value].element if value in self.types else None

    def dims(self, value: str) -> tuple[AxisSize, ...] | None:
        """Return the sizes of a value, None if its rank is not known."""
        return self.types[value].dims if value in self.types else None

    def rank(self, value: str) -> int | None:
        """Return the rank of a value, None if it is not known."""
        return rank_of(value, self.types)

    def sizes(self, value: str, first: int = 0) -> list[int] | None:
        """Return the sizes of a value from an axis on if they are known numbers."""
        dims = self.dims(value)
        return None if dims is None else known_sizes(dims[first:])

    def integers(self, value: str) -> list[int] | None:
        """Return the elements of a constant of integers."""
        return integers(self.constants.get(value))

    def input_with_size(self, size: AxisSize) -> SizedInput | None:
        """Return an input of the graph with this size, or the least multiple of it, and the fewest unknown sizes."""
        found = []
        for value in self.inputs:
            dims = (self.dims(value) or ()) if self.element(value) in NUMBERS else ()
            for axis, theirs in enumerate(dims if 0 not in dims else ()):
                if (multiple := multiple_of(theirs, size)) is not None:
                    found.append((multiple, value, axis, dims))
        return min(found, key=lambda each: (each[0], sum(not isinstance(of, int) for of in each[3])), default=None)

    def sources(self, axis: int, size: AxisSize, measured: str | None = None) -> list[int | SizedInput]:
        """Return an input of the graph with this size, or those for the factors of a product, which may be numbers.

        Without such it is the value `measured`, which has the size on this axis; [] if there is none.
        """
        if (whole := self.input_with_size(size)) is not None:
            return [whole]
        found = [each if isinstance(each, int) else self.input_with_size(each) for each in factors_of(size)]
        known = [each for each in found if each is not None]
        if len(known) == len(found) > 1:
            return known
        return [] if measured is None else [(1, measured, axis, self.dims(measured) or ())]

    def measured_by(self, shape: str) -> str | None:
        """Return the value whose shape a value is, if zeros can be made of it."""
        value = self.measured.get(shape)
        return value if value is not None and self.element(value) in NUMBERS else None


def same_but(node: NodeProto, inputs: Sequence[str] | None = None, /, **attributes: Any) -> NodeProto:
    """Return a copy of a node with other attributes, of which None leaves one out, and inputs."""
    changed = deepcopy(node)
    kept = [found for found in node.attribute if found.name not in attributes]
    added = [helper.make_attribute(name, value) for name, value in attributes.items() if value is not None]
    replace_entries(changed, "attribute", [*kept, *added])
    if inputs is not None:
        changed.input[:] = inputs
    return changed
