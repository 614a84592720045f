# SPDX-License-Identifier: Apache-2.0

"""What an export for CANN's graph engine may write in place of a shape that a graph computes: numbers, rows or zeros.

The rewrites are those of Reshape, Expand and ConstantOfShape, derived from ONNX's definitions as in `rewrites`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, numpy_helper

from poolgrad_lowering.verification.exports.node_rewrite import NUMBERS, Context, GivenOperand, NodeRewrite
from poolgrad_lowering.verification.graph.types import AxisSize, factors_of, is_open, known_sizes, multiple_of


def shape_rewrites(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A shape as numbers: that of the result, with −1, 0 or 1 for sizes that follow from the input."""
    position = 0 if node.op_type == "ConstantOfShape" else 1
    result = context.types.get(context.measured.get(node.input[position], node.output[0]))
    if result is None or result.dims is None or 0 in result.dims:
        return
    own = context.dims(node.input[0]) if position else ()
    shape: list[AxisSize] = list(result.dims)
    zeros = False
    if node.op_type == "Reshape":
        shape = _counted(shape, own)
        unknown = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(unknown) > 1:  # 0 is the size of the input on the same axis
            known = [axis for axis in unknown if shape[axis] is not None]
            kept = [axis for axis in known if shape[axis] in (own or ())[axis : axis + 1]]
            shape, zeros = [0 if axis in kept else size for axis, size in enumerate(shape)], bool(kept)
        if sum(not isinstance(size, int) for size in shape) == 1:
            shape = list(_as_numbers(shape, -1))
        yield from _aligned(node, own or (), result.dims)
        yield from _rows(node, own or (), result.dims, context)
    elif own is not None and len(own) <= len(shape):
        aligned = [*[None] * (len(shape) - len(own)), *own]
        if node.op_type == "Expand":
            pairs = zip(shape, aligned, strict=True)
            shape = [1 if isinstance(size, str) and size == of else size for size, of in pairs]
        yield from _filled(node, held, result.dims, own, context)
    if all(isinstance(size, int) for size in shape):
        rewrite = NodeRewrite()
        changes = {"allowzero": 0} if zeros else {}
        yield rewrite.same(
            node, *node.input[:position], np.array(shape, np.int64), *node.input[position + 1 :], **changes
        )


def _counted(shape: list[AxisSize], own: Sequence[AxisSize] | None) -> list[AxisSize]:
    """Return the shape of a Reshape with its one size that inference does not name, which all the others leave."""
    if own is None or None in own or sum(map(is_open, shape)) != 1:
        return shape
    named = [size for size in shape if not is_open(size)]
    left = multiple_of(*("*".join(map(str, (1, *sizes))) for sizes in (own, named)))
    return [left if left and is_open(size) else size for size in shape]  # 0 would be the size of the input


def _aligned(node: NodeProto, own: Sequence[AxisSize], shape: Sequence[AxisSize]) -> Iterator[NodeRewrite]:
    """A Reshape of a value with axes of size 1, or to one with such: 0 is the size that it has on the same axis."""
    count = len(shape) - len(own)
    for kept in range(1, min(len(own), len(shape))):
        longer = shape if count > 0 else own
        if own[-kept:] != shape[-kept:] or None in shape[-kept:]:
            break
        axes = np.arange(len(longer) - kept - abs(count), len(longer) - kept)
        ones: list[AxisSize] = [1] * abs(count)
        before = [*own[:-kept], *ones, *own[-kept:]] if count > 0 else list(own)
        after = [*shape[:-kept], *ones, *shape[-kept:]] if count < 0 else list(shape)
        pairs = zip(after, before, strict=True)
        zeros = [0 if not isinstance(size, int) and size == of else size for size, of in pairs]
        numbers = np.array(_as_numbers(zeros, -1), np.int64)
        rewrite = NodeRewrite()
        if count > 0:
            rewrite.into(node.output[0], "Reshape", rewrite.add("Unsqueeze", node.input[0], axes), numbers)
        else:
            rewrite.into(node.output[0], "Squeeze", rewrite.add("Reshape", node.input[0], numbers), axes)
        if count and list(numbers).count(-1) <= 1:
            yield rewrite


def _rows(
    node: NodeProto, own: Sequence[AxisSize], shape: Sequence[AxisSize], context: Context
) -> Iterator[NodeRewrite]:
    """A Reshape to (…, R), with R the number of elements behind the last unknown size, is rows at i, at i · M + j, …"""
    leading = max((axis + 1 for axis, size in enumerate(shape) if not isinstance(size, int)), default=0)
    rest, measured = known_sizes(shape[leading:]) or [], context.measured_by(node.input[1])
    rewrite = NodeRewrite()
    axes = [rewrite.places_along(axis, leading, size, context, measured) for axis, size in enumerate(shape[:leading])]
    known = [each for each in axes if each is not None]
    if not known or len(known) < len(axes):
        return
    index = rewrite.row_major([places for places, _ in known], [count for _, count in known[1:]])
    flat, value, is_flat = [math.prod(rest)] if rest else [], node.input[0], bool(own) and list(own[1:]) == rest
    if not is_flat:
        value = rewrite.add("Reshape", value, [-1, *flat])
    if is_flat or flat == rest:
        yield rewrite.into(node.output[0], "Gather", value, index, axis=0)
    else:
        gathered = rewrite.add("Gather", value, index, axis=0)
        yield rewrite.into(node.output[0], "Reshape", gathered, [*[0] * leading, *rest])


def _filled(
    node: NodeProto, held: Mapping[str, Any], shape: Sequence[AxisSize], own: Sequence[AxisSize], context: Context
) -> Iterator[NodeRewrite]:
    """A value minus zeros, which have sizes of the graph's inputs, or of the value whose shape it is.

    Nothing is less than itself, and false is 0. A product of sizes is an axis for each factor until the last node, or
    one axis, as the zeros are.
    """
    own = [1] * (len(shape) - len(own)) + list(own)
    pairs = zip(shape, own, strict=True)
    factors = [[size] if size == of or context.input_with_size(size) else factors_of(size) for size, of in pairs]
    whole: list[list[AxisSize]] = [[size] for size in shape]
    for each in (factors, whole) if factors != whole else (whole,):
        yield from _filled_along(node, held, (shape, own), each, context)


def _filled_along(
    node: NodeProto,
    held: Mapping[str, Any],
    shapes: tuple[Sequence[AxisSize], Sequence[AxisSize]],
    factors: Sequence[Sequence[AxisSize]],
    context: Context,
) -> Iterator[NodeRewrite]:
    """The same for these factors of each size of the result, which are axes of the value until the last node."""
    shape, own = shapes
    sizes = [size for each in factors for size in each]
    is_split = len(sizes) > len(shape)
    own = [theirs for each, theirs in zip(factors, own, strict=True) for _ in each]
    measured = None if is_split else context.measured_by(node.input[node.op_type == "Expand"])
    wanted = [axis for axis, size in enumerate(sizes) if not isinstance(size, int) and size != own[axis]]
    if any(own[axis] != 1 for axis in wanted):
        return
    rewrite = NodeRewrite()
    value, element = node.input[0], context.element(node.input[0])
    if node.op_type == "ConstantOfShape":
        stored = held.get("value")
        value = rewrite.value(np.zeros(1, np.float32) if stored is None else numpy_helper.to_array(stored))
        element = TensorProto.FLOAT if stored is None else stored.data_type
    if not wanted or element not in (*NUMBERS, TensorProto.BOOL):
        return
    sources = {axis: context.sources(axis, sizes[axis], measured) for axis in wanted}
    if not all(sources.values()):
        return
    zeros = [rewrite.zeros_of(axis, len(sizes), found, element) for axis, found in sources.items()]
    joins = "Or" if element == TensorProto.BOOL else "Sub"
    steps: list[tuple[str, GivenOperand]] = [(joins, zero) for zero in zeros]
    if is_split and set(own) != {1}:
        steps.insert(0, ("Reshape", _as_numbers(own, -1)))
    numbers_of_all = _as_numbers(sizes, 1)
    if _as_numbers(own, 1) != numbers_of_all:
        steps.append(("Expand", numbers_of_all))
    if is_split:
        steps.append(("Reshape", _as_numbers(shape, -1)))
    for op_type, operand in steps:
        value = rewrite.add(op_type, value, operand)
    rewrite.nodes[-1].output[:] = node.output
    yield rewrite


def _as_numbers(sizes: Sequence[AxisSize], unknown: int) -> list[int]:
    """Return the sizes with a number in place of those that are not known."""
    return [size if isinstance(size, int) else unknown for size in sizes]
