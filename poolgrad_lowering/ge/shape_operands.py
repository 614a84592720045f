# SPDX-License-Identifier: Apache-2.0

"""Writes the shapes that a graph computes as numbers: GE has to know them when it builds a part of the graph.

The graph may be cut between the nodes that compute a shape and the one that reads it. A size that is not known is −1 or
0 for a Reshape, and 1 for an Expand of a value that has it already. A value that is expanded to another such size is
x − 0, with zeros of that size (`zeros`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from poolgrad_lowering.ge.values import SHAPE_OPERANDS, all_numbers
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.ge.zeros import (
    NUMBERS,
    WITH_ZERO,
    Sizes,
    Zeros,
    are_counted,
    count_unknown,
    counted_along,
    factors_of,
    is_of_inputs,
    multiples,
    row_major,
    zeros_like_input,
)
from poolgrad_lowering.model.facts.known import by_rule, need, require


def write_numbers(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """Add a Reshape, Expand or ConstantOfShape to numbers in place of a computed shape.

    One of constants alone stays, but for a Shape of known sizes: onnxruntime computes it when it makes the session.
    """
    position = SHAPE_OPERANDS[node.op_type]
    operand = node.input[position]
    shape, made = need(writer.types.vectors.get(operand)), writer.producers.get(operand)
    require(shape and 0 not in shape)
    require((made is not None and made.op_type == "Shape") or operand not in writer.folded)
    source = writer.types.shapes.get(node.input[0]) if position else ()
    if node.op_type == "Reshape":
        sizes = shape if -1 not in shape else writer.types.shapes.get(node.output[0], ())
        numbers = _of_reshape(source, sizes)
        if numbers is None:
            if source is None or by_rule(_write_aligned, node, source, sizes, writer) is None:
                _write_rows(node, source, sizes, writer)
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


def _write_aligned(node: NodeProto, source: Sizes, shape: Sizes, writer: Writer) -> str:
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
    require(writer.opset >= 13)  # `verify` knows axes that are an input
    value, result, axes = node.input[0], node.output[0], list(range(begin, end))
    element, aligned = writer.types.elements.get(value, TensorProto.UNDEFINED), writer.name(f"{result}/aligned")
    writer.types.learn(aligned, element, before if is_unsqueezed else after)
    if is_unsqueezed:
        return writer.reshape(writer.along("Unsqueeze", value, axes, aligned), numbers, result)
    return writer.along("Squeeze", writer.reshape(value, numbers, aligned), axes, result)


def _write_rows(node: NodeProto, source: Sizes | None, shape: Sizes, writer: Writer) -> None:
    """Add a Gather of rows for a Reshape to several sizes that are not known, of which it can compute one only.

    A row has the elements behind the last of these sizes. For (N, M, R) it is row i · M + j of (N·M, R).
    """
    result, measured = node.output[0], _measured(node, shape, writer)
    require(shape and 0 not in shape)
    leading = max(axis + 1 for axis, size in enumerate(shape) if not isinstance(size, int))
    require(are_counted(shape[:leading], writer, measured))
    axes = [counted_along(axis, leading, size, writer, measured) for axis, size in enumerate(shape[:leading])]
    places, counts = zip(*axes, strict=True)
    index, rest = row_major(places, counts, result, writer), need(all_numbers(shape[leading:]))
    value, element = node.input[0], writer.types.elements.get(node.input[0])
    flat = [math.prod(rest)] if rest else []
    is_flat = source is not None and tuple(source[1:]) == rest
    if not is_flat:
        value = writer.reshape(value, [-1, *flat], writer.name(f"{result}/flat"))
    if is_flat or flat == list(rest):
        writer.add("Gather", [value, index], result, axis=0)
        return
    value = writer.add("Gather", [value, index], writer.name(f"{result}/gathered"), axis=0)
    writer.types.learn(value, element, [*shape[:leading], *flat])
    writer.reshape(value, [*[0] * leading, *rest], result)


def _of_expand(source: Sizes | None, shape: Sizes) -> Sequence[int] | None:
    """Return the sizes of the result, with 1 for names of sizes that the input has on the same axis."""
    missing = len(shape) - len(source or ())
    pairs = zip([*[1] * -missing, *shape], [*[None] * missing, *(source or ())], strict=True)

    def told(size: int | str | None, own: int | str | None) -> int | str | None:
        if isinstance(own, int):
            return own if size == 1 else size
        return 1 if isinstance(size, str) and size == own else size

    return all_numbers([told(*pair) for pair in pairs])


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
    can_be_made = all(own[axis] == 1 and (measured or is_of_inputs(sizes[axis], writer)) for axis in missing)
    require(can_be_made and element in WITH_ZERO)
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
    whole = [multiples(size, writer) or not is_of_inputs(size, writer) for size in shape]
    factors = [[size] if is_whole else factors_of(size) for is_whole, size in zip(whole, shape, strict=True)]
    split = [theirs for theirs, each in zip(own, factors, strict=True) if len(each) > 1]
    if set(split) != {1} or 0 in shape or max(map(count_unknown, (own, shape))) > 1:
        return own, shape
    sizes = [size for each in factors for size in each]
    return [theirs for theirs, each in zip(own, factors, strict=True) for _ in each], sizes


def _as_numbers(sizes: Sizes, unknown: int) -> list[int]:
    """Return the sizes with a number in place of those that are not known."""
    return [size if isinstance(size, int) else unknown for size in sizes]


def _fill_value(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> str:
    """Return the value that a ConstantOfShape fills with, as a constant of one element."""
    tensor = attributes.get("value", helper.make_tensor("", TensorProto.FLOAT, [1], np.zeros(1)))
    copied = TensorProto()
    copied.CopyFrom(tensor)
    copied.name = f"{node.output[0]}/value"
    return writer.tensor(copied)


def _measured(node: NodeProto, shape: Sizes, writer: Writer) -> str | None:
    """Return the value whose whole shape a node computes, if zeros can be made of it."""
    made = writer.producers.get(node.input[SHAPE_OPERANDS[node.op_type]])
    if made is None or made.op_type != "Shape":
        return None
    value = made.input[0]
    return value if writer.types.elements.get(value) in NUMBERS and writer.types.rank(value) == len(shape) else None
