# SPDX-License-Identifier: Apache-2.0

"""Writes the shapes that a graph computes as numbers: GE has to know them when it builds a part of the graph.

The graph may be cut between the nodes that compute a shape and the one that reads it. A size that is not known is −1 or
0 for a Reshape, and 1 for an Expand of a value that has it already. A value that is expanded to another such size is
x − 0, with zeros that have the size, made of an input of the graph that has it, or of the value whose shape it is:
r < r is false, and false is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper

from poolgrad_lowering.ge.values import SHAPE_OPERANDS, all_numbers
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.facts.known import need, require
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.dims import Dim

Sizes = Sequence[int | str | None]
"""A number or a name for each axis; None for a size that has neither."""


class Zeros(NamedTuple):
    """Zeros, false for bool, with a size on one of their axes and 1 on the others; `element` is their type."""

    size: str
    axis: int
    rank: int
    element: int


def write_numbers(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """Add a Reshape, Expand or ConstantOfShape to numbers in place of a computed shape."""
    position = SHAPE_OPERANDS[node.op_type]
    shape = need(writer.types.vectors.get(node.input[position]))
    require(shape and 0 not in shape)
    source = writer.types.shapes.get(node.input[0]) if position else ()
    if node.op_type == "Reshape":
        sizes = shape if -1 not in shape else writer.types.shapes.get(node.output[0], ())
        numbers = _of_reshape(source, sizes)
        if numbers is None:
            _write_aligned(node, need(source), sizes, writer)
            return
    else:
        numbers = _of_expand(source, shape)
        if numbers is None:
            _fill(node, attributes, need(source), shape, writer)
            return
    inputs = list(node.input)
    inputs[position] = writer.vector(numbers)
    writer.change(node, {"allowzero": 0} if 0 in numbers else {}, inputs=inputs)


def _of_reshape(source: Sizes | None, shape: Sizes) -> Sequence[int] | None:
    """Return the shape with 0 for sizes that the input has on the same axis, and −1 for one more."""
    unknown = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    same = [
        axis
        for axis in unknown
        if shape[axis] is not None and shape[axis : axis + 1] == (source or ())[axis : axis + 1]
    ]
    copied = same if len(unknown) > 1 else []
    free = [axis for axis in unknown if axis not in copied]
    if len(free) > 1 or not shape or 0 in shape:
        return None
    return [0 if axis in copied else size if isinstance(size, int) else -1 for axis, size in enumerate(shape)]


def _write_aligned(node: NodeProto, source: Sizes, shape: Sizes, writer: Writer) -> None:
    """Add a Reshape beside axes of size 1, with which the last sizes are on the same axes before and after it.

    There is one of (2·N, M, 4) to (N, 2, M, 4) and back.
    """
    pairs = zip(reversed(source), reversed(shape), strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one is None or one != other), 0)
    begin, end = (length - same for length in sorted(map(len, (source, shape))))
    is_unsqueezed, ones = len(source) < len(shape), [1] * (end - begin)
    before, after = (
        [*sizes[:begin], *ones, *sizes[begin:]] if len(sizes) == begin + same else list(sizes)
        for sizes in (source, shape)
    )
    numbers = need(_of_reshape(before, after))
    require(ones and same and writer.opset >= 13)  # `verify` knows axes that are an input
    value, result, axes = node.input[0], node.output[0], list(range(begin, end))
    element, aligned = writer.types.elements.get(value, TensorProto.UNDEFINED), writer.name(f"{result}/aligned")
    writer.types.learn(aligned, element, before if is_unsqueezed else after)
    if is_unsqueezed:
        writer.reshape(writer.along("Unsqueeze", value, axes, aligned), numbers, result)
    else:
        writer.along("Squeeze", writer.reshape(value, numbers, aligned), axes, result)


def _of_expand(source: Sizes | None, shape: Sizes) -> Sequence[int] | None:
    """Return the shape with 1 for the names of sizes that the input has on the same axis."""
    aligned = [None] * (len(shape) - len(source or ())) + list(source or ())
    sizes = [1 if isinstance(size, str) and size == own else size for size, own in zip(shape, aligned, strict=False)]
    return all_numbers(sizes)


def _fill(
    node: NodeProto, attributes: Mapping[str, Any], source: Sizes, shape: Sequence[int | str], writer: Writer
) -> None:
    """Add nodes that expand a value to sizes which inputs of the graph have.

    A product such as 4·N is an axis for each factor until the last node, where a Reshape can join them.
    """
    require(len(source) <= len(shape))
    own = [1] * (len(shape) - len(source)) + list(source)
    result_shape = [theirs if size == 1 else size for size, theirs in zip(shape, own, strict=True)]
    own, sizes = map(list, _with_factors(own, result_shape, writer))
    is_split = len(sizes) > len(result_shape)
    missing = [axis for axis, size in enumerate(sizes) if isinstance(size, str) and size != own[axis]]
    value = node.input[0] if node.op_type == "Expand" else _fill_value(node, attributes, writer)
    element = writer.types.elements.get(value, TensorProto.UNDEFINED)
    measured = None if is_split else _measured(node, shape, writer)
    can_be_made = all(own[axis] == 1 and (measured or _is_of_inputs(sizes[axis], writer)) for axis in missing)
    require(can_be_made and element in _WITH_ZERO)
    wanted = [Zeros(str(sizes[axis]), axis, len(sizes), element) for axis in missing]
    zeros = [zeros_like_input(each, writer, measured) for each in wanted]
    result, spread = node.output[0], list(own)
    if is_split and set(own) != {1}:
        value = writer.reshape(value, _as_numbers(own, -1), writer.name(f"{result}/axes"))
        writer.types.learn(value, element, own)
    numbers = _as_numbers(sizes, 1)
    is_larger = _as_numbers(own, 1) != numbers
    for axis, zero in zip(missing, zeros, strict=True):
        is_last = zero == zeros[-1] and not (is_larger or is_split)
        spread[axis] = sizes[axis]
        output = result if is_last else writer.name(f"{result}/filled")
        value = writer.add("Or" if element == TensorProto.BOOL else "Sub", [value, zero], output)
        writer.types.learn(value, element, spread)
    if is_larger:
        value = writer.add(
            "Expand", [value, writer.vector(numbers)], writer.name(f"{result}/all") if is_split else result
        )
        writer.types.learn(value, element, sizes)
    if is_split:
        writer.reshape(value, _as_numbers(result_shape, -1), result)


def _with_factors(own: Sizes, shape: Sizes, writer: Writer) -> tuple[Sizes, Sizes]:
    """Return the sizes of a value and of what it is expanded to, with an axis for each factor that an input has.

    `shape` is that of the result. Axes stay if a size of the value would be split, or if a Reshape between other axes
    could not say the sizes: it computes one that is not known, and copies where it is told 0.
    """
    pairs = [*zip(own, shape, strict=True)]
    whole = [size == theirs or _multiples(size, writer) or not _is_of_inputs(size, writer) for theirs, size in pairs]
    factors = [[size] if is_whole else _factors(size) for is_whole, (_, size) in zip(whole, pairs, strict=True)]
    split = [theirs for theirs, each in zip(own, factors, strict=True) if len(each) > 1]
    if split and (set(split) != {1} or 0 in shape or max(map(_count_unknown, (own, shape))) > 1):
        return own, shape
    sizes = [size for each in factors for size in each]
    return [theirs for theirs, each in zip(own, factors, strict=True) for _ in each], sizes


def _as_numbers(sizes: Sizes, unknown: int) -> list[int]:
    """Return the sizes with a number in place of those that are not known."""
    return [size if isinstance(size, int) else unknown for size in sizes]


def _factors(size: int | str | None) -> Sizes:
    """Return a size as the product of a number and names, e.g. 4 and N; none of them is the number 1 but the last."""
    if not isinstance(size, str):
        return [size]
    dim = Dim.parse(size)
    return [*([dim.coefficient] if dim.coefficient != 1 else []), *dim.symbols] or [1]


def _fill_value(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> str:
    """Return the value that a ConstantOfShape fills with, as a constant of one element."""
    tensor = attributes.get("value", helper.make_tensor("", TensorProto.FLOAT, [1], np.zeros(1)))
    copied = TensorProto()
    copied.CopyFrom(tensor)
    copied.name = f"{node.output[0]}/value"
    return writer.tensor(copied)


_WITH_ZERO = (*FLOAT_TYPES, TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)
"""The element types that a value in the shape of an input may have; those of Sub, and bool."""
_MEASURED = {*_WITH_ZERO} - {TensorProto.BOOL}
"""The element types of values that zeros are made of."""


def _measured(node: NodeProto, shape: Sizes, writer: Writer) -> str | None:
    """Return the value whose whole shape a node computes, if zeros can be made of it."""
    made = writer.producers.get(node.input[SHAPE_OPERANDS[node.op_type]])
    if made is None or made.op_type != "Shape" or any(each.name == "end" or each.i for each in made.attribute):
        return None
    value = made.input[0]
    return value if writer.types.elements.get(value) in _MEASURED and writer.types.rank(value) == len(shape) else None


def zeros_like_input(wanted: Zeros, writer: Writer, measured: str | None = None) -> str:
    """Return zeros from inputs of the graph.

    If no input has their size or a multiple of it, nor inputs its factors, they are made of the value `measured`, which
    has the size on the same axis; without such a value they are "".
    """
    if wanted not in writer.zeros and wanted.element in _WITH_ZERO:
        least = min(_multiples(wanted.size, writer), key=lambda each: each[0], default=None)  # the first of the least
        if least is not None:
            writer.zeros[wanted] = _zeros_of(*least, wanted, writer)
        elif _is_of_inputs(wanted.size, writer):
            writer.zeros[wanted] = _zeros_of_product(wanted, writer)
        elif measured:
            writer.zeros[wanted] = _zeros_of(1, measured, wanted.axis, wanted, writer)
    return writer.zeros.get(wanted, "")


def _is_of_inputs(size: int | str | None, writer: Writer) -> bool:
    """Whether inputs of the graph have a named size, or each name in a product."""
    if not isinstance(size, str) or _multiples(size, writer):
        return isinstance(size, str)
    return all(isinstance(each, int) or _multiples(each, writer) for each in _factors(size))


def _zeros_of_product(wanted: Zeros, writer: Writer) -> str:
    """Return zeros of a size such as 2·N or N·M: those of each factor on an axis of its own, joined to one axis."""
    size, axis, rank, element = wanted
    factors = _factors(size)
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


def _multiples(size: int | str | None, writer: Writer) -> list[tuple[int, str, int]]:
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
    known = [name for name in writer.inputs if writer.types.elements.get(name) in _MEASURED]
    shapes = [(name, writer.types.shapes.get(name, (0,))) for name in known]
    return sorted((each for each in shapes if 0 not in each[1]), key=lambda each: _count_unknown(each[1]))


def _count_unknown(sizes: Sizes) -> int:
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
