# SPDX-License-Identifier: Apache-2.0

"""Writes zeros, and the numbers from 0 on, with a size that is known when a graph runs: that of an input or a value.

With a row r of a value that has the size, r < r is false for each element, and false is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.ge.writer import LAST, Writer
from poolgrad_lowering.model.facts.known import need
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.dims import Dim

Sizes = Sequence[int | str | None]
"""A number or a name for each axis; None for a size that has neither."""

WITH_ZERO = (*FLOAT_TYPES, TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)
"""The element types that a value in the shape of an input may have; those of Sub, and bool."""
NUMBERS = {*WITH_ZERO} - {TensorProto.BOOL}
"""The element types of values that zeros are made of."""


class Zeros(NamedTuple):
    """Zeros, false for bool, with a size on one of their axes and 1 on the others; `element` is their type."""

    size: str
    axis: int
    rank: int
    element: int


def zeros_like_input(wanted: Zeros, writer: Writer, measured: str | None = None) -> str:
    """Return zeros from inputs of the graph.

    If no input has their size or a multiple of it, nor inputs its factors, they are made of the value `measured`, which
    has the size on the same axis; without such a value they are "".
    """
    if wanted not in writer.zeros and wanted.element in WITH_ZERO:
        least = min(multiples(wanted.size, writer), key=lambda each: each[0], default=None)  # the first of the least
        if least is not None:
            writer.zeros[wanted] = _zeros_of(*least, wanted, writer)
        elif is_of_inputs(wanted.size, writer):
            writer.zeros[wanted] = _zeros_of_product(wanted, writer)
        elif measured:
            writer.zeros[wanted] = _zeros_of(1, measured, wanted.axis, wanted, writer)
    return writer.zeros.get(wanted, "")


def is_of_inputs(size: int | str | None, writer: Writer) -> bool:
    """Whether a size is a number, or inputs of the graph have it, or each name in a product."""
    known = (isinstance(each, int) or multiples(each, writer) for each in factors_of(size))
    return bool(multiples(size, writer)) or all(known)


def _zeros_of_product(wanted: Zeros, writer: Writer) -> str:
    """Return zeros of a size such as 2·N or N·M: those of each factor on an axis of its own, joined to one axis."""
    size, axis, rank, element = wanted
    factors = factors_of(size)
    names = [(place, each) for place, each in enumerate(factors) if isinstance(each, str)]
    value = ""
    shape: list[int | str] = [1] * len(factors)
    for place, each in names:
        zero = zeros_like_input(Zeros(each, place, len(factors), element), writer)
        shape = [*shape[:place], each, *shape[place + 1 :]]
        operator = "Or" if element == TensorProto.BOOL else "Sub"
        value = writer.add(operator, [value, zero], writer.name(f"{zero}/product")) if value else zero
        writer.types.learn(value, element, shape)
    if isinstance(factors[0], int):
        numbers = writer.vector([factors[0]] + [1] * len(names))
        value = writer.add("Expand", [value, numbers], writer.name(f"{value}/all"))
        writer.types.learn(value, element, [factors[0], *shape[1:]])
    joined = writer.reshape(value, [-1 if at == axis else 1 for at in range(rank)], writer.name(f"{value}/joined"))
    writer.types.learn(joined, element, [size if at == axis else 1 for at in range(rank)])
    return joined


def multiples(size: int | str | None, writer: Writer) -> list[tuple[int, str, int]]:
    """Return the inputs of the graph and their axes that have a named size or a multiple of it, behind that number."""
    if not isinstance(size, str):
        return []
    return [
        (multiple.static, value, axis)
        for value, sizes in _inputs(writer)
        for axis, theirs in enumerate(sizes)
        if isinstance(theirs, str) and (multiple := Dim.parse(theirs).divided_by(Dim.parse(size))) is not None
        if multiple.static is not None
    ]


def _inputs(writer: Writer) -> list[tuple[str, Sizes]]:
    """Return the inputs of the graph that are numbers, and their shapes, those with the fewest names of sizes first."""
    known = [name for name in writer.inputs if writer.types.elements.get(name) in NUMBERS]
    shapes = [(name, writer.types.shapes.get(name, (0,))) for name in known]
    return sorted((each for each in shapes if 0 not in each[1]), key=lambda each: count_unknown(each[1]))


def count_unknown(sizes: Sizes) -> int:
    """Return how many of the sizes are no numbers."""
    return sum(not isinstance(size, int) for size in sizes)


def _zeros_of(multiple: int, value: str, held: int, wanted: Zeros, writer: Writer) -> str:
    """Return zeros of the wanted size, axis, rank and element type from an axis with a multiple of the size."""
    size, axis, rank, element = wanted
    sizes, start = writer.types.shapes[value], value
    cut = [other for other, size in enumerate(sizes) if other != held and size != 1]
    if cut:
        value = writer.slice(value, [0] * len(cut), [1] * len(cut), cut, writer.name(f"{start}/first"))
        writer.types.elements[value] = writer.types.elements[start]
    if multiple > 1:
        parts = writer.reshape(value, [-1, multiple], writer.name(f"{start}/parts"))
        writer.types.learn(parts, writer.types.elements[start], [size, multiple])
        value = writer.slice(parts, [0], [1], [1], writer.name(f"{start}/every"))
        writer.types.learn(value, writer.types.elements[start], [size, 1])
    row = writer.reshape(value, [-1 if at == axis else 1 for at in range(rank)], writer.name(f"{start}/row"))
    false = writer.add("Less", [row, row], writer.name(f"{start}/false"))
    spread = [size if at == axis else 1 for at in range(rank)]
    for name, kind in ((row, writer.types.elements[start]), (false, TensorProto.BOOL)):
        writer.types.learn(name, kind, spread)
    if element == TensorProto.BOOL:
        return false
    zeros = writer.add("Cast", [false], writer.name(f"{start}/zeros"), to=element)
    writer.types.learn(zeros, element, spread)
    return zeros


_CUM_SUM_OPSET = 11
MOST_NUMBERS = 1 << 24
"""The most elements of a constant that an export adds: more than any network needs, fewer than fill a memory."""


def numbers_along(axis: int, rank: int, size: str, writer: Writer, measured: str | None = None) -> str | None:
    """Return the int64 numbers from 0 on along one of `rank` axes, None where `zeros_like_input` finds no zeros."""
    wanted = Zeros(size, axis, rank, TensorProto.INT64)
    zeros = zeros_like_input(wanted, writer, measured)
    if not zeros or writer.opset < _CUM_SUM_OPSET:
        return None
    held, step = writer.constant(f"{zeros}/axis", np.array(axis)), writer.vector([1])
    one = writer.add("Add", [zeros, step], writer.name(f"{zeros}/one"))
    number = writer.add("CumSum", [one, held], writer.name(f"{zeros}/number"), exclusive=1)
    for value in (one, number):
        writer.types.learn(value, wanted.element, writer.types.shapes.get(zeros))
    return number


def are_counted(sizes: Sizes, writer: Writer, measured: str | None = None) -> bool:
    """Whether `counted_along` finds the numbers along axes of these sizes, those of `measured` if it is given."""
    return writer.opset >= _CUM_SUM_OPSET and all(
        size <= MOST_NUMBERS if isinstance(size, int) else bool(measured) or is_of_inputs(size, writer)
        for size in sizes
    )


def counted_along(
    axis: int, rank: int, size: int | str | None, writer: Writer, measured: str | None = None
) -> tuple[str, str]:
    """Return the numbers from 0 on along an axis, and how many there are as one element.

    Raises `NotApplicableError` where `numbers_along` finds none.
    """
    if isinstance(size, int):
        along = np.arange(size).reshape([-1 if at == axis else 1 for at in range(rank)])
        return writer.constant(f"numbers_{size}", along), writer.vector([size])
    name = f"?{measured}[{axis}]" if measured else str(size)
    number = need(numbers_along(axis, rank, name, writer, measured))
    if not axis:  # nothing is in front of it
        return number, ""
    last = writer.slice(number, [-1], [LAST], [axis], writer.name(f"{number}/last"))
    count = writer.add("Add", [last, writer.vector([1])], writer.name(f"{number}/count"))
    for value in (last, count):
        writer.types.learn(value, TensorProto.INT64, [1] * rank)
    return number, count


def row_major(places: Sequence[str], counts: Sequence[str], name: str, writer: Writer) -> str:
    """Return i · M + j for the places i and j along axes, the last of which counts M elements, and so on."""
    index = places[0]
    for place, count in zip(places[1:], counts[1:], strict=True):
        first = writer.add("Mul", [index, count], writer.name(f"{name}/first"))
        own, theirs = (writer.types.shapes[value] for value in (index, place))
        index = writer.add("Add", [first, place], writer.name(f"{name}/rows"))
        writer.types.learn(first, TensorProto.INT64, own)
        sizes = [one if other == 1 else other for one, other in zip(own, theirs, strict=True)]
        writer.types.learn(index, TensorProto.INT64, sizes)
    return index


def factors_of(size: int | str | None) -> Sizes:
    """Return a size as the product of a number other than 1 and names, e.g. 4 and N."""
    if not isinstance(size, str):
        return [size]
    dim = Dim.parse(size)
    return [*([dim.coefficient] if dim.coefficient != 1 else []), *dim.symbols]
